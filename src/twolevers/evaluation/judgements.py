"""Judgements on disk: JSON Lines, one object a question, appended as they come.

A line bears the hash of the question's whole text, so that whatever was asked already is not asked
again: after a break, of another run with equal answers, for an entry that stands there twice. Two
that ask the same judge at once share the file: each sees what the other has, and the second begins
at the other end.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path

from filelock import FileLock, Timeout

from twolevers.errors import TwoleversError
from twolevers.files import hash_of, write_json
from twolevers.records import Record


@dataclass(frozen=True)
class Judgement:
    """What a judge said to one question."""

    key: str
    """Hash of the question's text and of how often it had been asked before."""
    value: float | None
    """As `judge_readings.Reading`; None: no reply held one."""
    reason: str
    reply: str
    """The last reply, whole."""
    replies: int
    """1, or 2 where the first held no number."""
    prompt_tokens: int
    reply_tokens: int
    left_out: list[str] = field(default_factory=list)
    """Settings that its server did not take; it was asked without."""


def key_of(text: str, time: int = 0) -> str:
    """Key of a question that was asked `time` times before."""
    return hash_of([text, time] if time else [text])


class Judgements:
    """The judgements of one judge, in `FOLDER/HASH.jsonl`; who that is, in `FOLDER/HASH.json`."""

    def __init__(self, folder: Path, judge: Record, sha256: str) -> None:
        self.path = folder / f"{sha256[:16]}.jsonl"
        try:
            write_json(self.path.with_suffix(".json"), judge.model_dump(mode="json"))
            self._lock = FileLock(self.path.with_suffix(".lock"))
            with contextlib.suppress(Timeout):
                self._lock.acquire(timeout=0)
            self._kept: dict[str, Judgement] = {}
            self._read_to = 0
            self.refresh()
        except PermissionError as error:
            raise TwoleversError(
                f"{folder}: judgements cannot be kept there ({error.strerror}); open that folder, "
                "or name another home: TWOLEVERS_HOME"
            ) from error
        self._file: FileIO | None = None

    @property
    def is_first(self) -> bool:
        """No other is adding to the file."""
        return self._lock.is_locked

    def refresh(self) -> None:
        """Take in what others have added since, whole lines alone. A line that is no judgement
        counts as not asked."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._read_to)
            lines = file.read()
            lines = lines[: lines.rfind(b"\n") + 1]
            self._read_to += len(lines)
            for line in lines.splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    one = Judgement(**json.loads(line))
                    self._kept[one.key] = one

    def get(self, key: str) -> Judgement | None:
        """What is kept of a question."""
        return self._kept.get(key)

    def add(self, judgement: Judgement) -> None:
        """Keep it, on disk before this returns."""
        if self._file is None:
            before = self.path.read_bytes() if self.path.is_file() else b""
            # Not buffered: a line is one write, so that two judges at once mix no lines.
            self._file = self.path.open("ab", buffering=0)
            # What a kill left of a line ends here; the question is asked again.
            self._file.write(b"\n" if before and not before.endswith(b"\n") else b"")
        line = f"{json.dumps(asdict(judgement), ensure_ascii=False)}\n".encode()
        while line:
            line = line[self._file.write(line) :]
        self._kept[judgement.key] = judgement

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None
        self._lock.release()
