"""What a command can do something with: a run of its kind, and one whose model is here.

RUN may name any run. What is asked for is checked before anything is read of it, so that the
answer says what the run is, not which of its files are missing.
"""

from __future__ import annotations

import platform

from twolevers.errors import InputError, Problem
from twolevers.tracking import names
from twolevers.tracking.run_info import RunInfo

CLASSIFIER_FILE = "classifier.json"  # of `classification.model`, which imports torch
CALLED = {
    names.FINE_TUNE: "a fine-tuning",
    names.CLASSIFY: "a classification",
    names.EVALUATION: "an evaluation",
    names.RUN_TIME_TABLE: "a run-time table",
    names.ANSWERS: "the answers of a run",
}


def resume_command(kind: str | None, run_id: str) -> str | None:
    """The command that goes on with a stopped run; None of a kind that does not go on."""
    return f"twolevers {kind} --resume {run_id}" if kind in names.RESUMABLE else None


def go_on(found: RunInfo) -> str | None:
    """The command that goes on with a run that was stopped, killed or failed."""
    ended_early = found.status in ("KILLED", "FAILED")
    return resume_command(found.kind, str(found.run_id)[:8]) if ended_early else None


def check_kind(
    found: RunInfo, asked: str, *kinds: str, where: str = "run", instead: str | None = None
) -> RunInfo:
    """The run that was found, if it is of one of `kinds` or of no kind that is known.

    Args:
        asked: how it was named.
        where: the option that named it.
        instead: what can be done with one of another kind, where that is not to ask or see it.

    Raises:
        InputError: it is of another kind; says which, and what can be done with it.
    """
    if found.kind not in CALLED or found.kind in kinds:
        return found
    wanted = " or ".join(CALLED[kind] for kind in kinds)
    what = f"is {CALLED[found.kind]}, not {wanted}"
    raise InputError(Problem(where, asked, what, instead or _instead(found, kinds)))


def _instead(found: RunInfo, kinds: tuple[str, ...]) -> str:
    run = str(found.run_id)[:8]
    if found.kind == names.RUN_TIME_TABLE:
        return "see the table: twolevers table"
    if found.kind in (names.EVALUATION, names.ANSWERS):
        of = found.tags.get(names.EVALUATION_OF)
        if of and names.FINE_TUNE in kinds:
            return f"name the run whose model answered: {of[:8]}"
        return f"see it: twolevers show {run}"
    if found.kind == names.CLASSIFY:
        return f"ask it: twolevers classify --run {run} TEXT"
    return f"ask it: twolevers generate --run {run}, or twolevers classify --instruction"


def check_model(found: RunInfo, asked: str, *, where: str = "run") -> RunInfo:
    """A fine-tuning's run whose checkpoint lies on this machine, or a checkpoint of no run.

    Raises:
        InputError: it is of another kind, or has no checkpoint here; says why.
    """
    check_kind(found, asked, names.FINE_TUNE, where=where)
    if found.checkpoint is None:
        raise no_checkpoint(found, asked, where)
    if found.run_id is None and (found.checkpoint / CLASSIFIER_FILE).is_file():
        what = "classifies texts, it answers no instructions"
        way_out = f"ask it: twolevers classify --run {asked} TEXT"
        raise InputError(Problem(where, asked, what, way_out))
    return found


def no_checkpoint(found: RunInfo, asked: str, where: str = "run") -> InputError:
    """Why a run has no checkpoint here, and what to do."""
    host = found.tags.get(names.HOST, platform.node())
    why, way_out = "it is gone", "choose from: twolevers runs"
    if host != platform.node():
        why = f"the run is of {host}"
        way_out = f"ask it there, or {way_out}"
    elif found.status == "RUNNING":
        why = "it is still running and has written none"
        way_out = f"wait for it, or {way_out}"
    elif names.CHECKPOINT not in found.tags:
        why = f"it is {found.status} and has written none"
        if command := go_on(found):
            way_out = f"go on with it: {command}, or {way_out}"
    what = f"has no checkpoint on this machine: {why}"
    return InputError(Problem(where, asked, what, way_out))
