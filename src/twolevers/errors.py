"""Every error that twolevers raises on purpose, and the exit status it ends a command with.

    TwoleversError            1   something went wrong that the user can act on
    ├── InputError            2   what the user gave cannot be used; lists every problem found
    ├── FetchError            1   data or weights could not be had from where they live
    ├── DeviceError           1   the device computes something else than the CPU
    ├── TrainingError         1   training cannot go on (a loss that is no number)
    └── RunStopped          130   stopped by the user or by a signal; a checkpoint was written

Anything else that surfaces is a fault of the program and keeps its traceback.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing wrong with the input: where it stands, its value, what is wrong, the way out."""

    where: str
    value: object
    what: str
    way_out: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f" {self.value!r}"
        return f"{self.where}{shown}: {self.what}; {self.way_out}"


class TwoleversError(Exception):
    """Base of all errors raised on purpose. The message says what, where and what to do."""

    exit_status = 1


class InputError(TwoleversError):
    """The user's input cannot be used. Carries every problem found, not the first alone."""

    exit_status = 2

    def __init__(self, problems: Problem | Sequence[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    # Exceptions are rebuilt from `args` when a worker process hands them on.
    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class FetchError(TwoleversError):
    """Data or weights could not be fetched. `retryable` says whether trying again may help."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class DeviceError(TwoleversError):
    """The chosen device does not compute what the CPU computes."""


class TrainingError(TwoleversError):
    """Training cannot go on. Checkpoints written before are kept."""


class RunStopped(TwoleversError):  # noqa: N818 - it is no error: the user asked for it
    """Training stopped between two steps because it was asked to; a checkpoint lies ready."""

    exit_status = 130


NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What a write fails with that more room would let pass: a full disk, a quota, a limit."""


def no_room(error: OSError, then: str | None = None) -> TwoleversError:
    """A write that failed with one of `NO_ROOM`, and what to do.

    Args:
        then: what to do once there is room; by default, to try again.
    """
    where = f" for {error.filename}" if error.filename else ""
    return TwoleversError(
        f"There is no room{where} ({error.strerror or error}). Make room, for example with "
        f"`twolevers clean`, and {then or 'try again'}"
    )


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing when nothing is near."""
    near = nearest(value, known)
    return f" (did you mean {near!r}?)" if near else ""


def nearest(value: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a misspelt one; None when none is."""
    return next(iter(difflib.get_close_matches(value, list(known), n=1)), None)


def first_line(error: BaseException) -> str:
    """An error as one line: its type and the beginning of its message's first line."""
    text = str(error).strip()
    line = text.splitlines()[0] if text else ""
    line = line if len(line) <= 300 else line[:299] + "…"
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
