"""How a run goes on, and whether it may: the same data, the same start, the same recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twolevers.errors import InputError, Problem, RunStopped
from twolevers.interrupt import StopFlag
from twolevers.models.layout import WEIGHTS_FILE
from twolevers.options import Group, TaskOptions, flag
from twolevers.progress import Progress
from twolevers.training.checkpoint import Checkpoints, Result
from twolevers.training.trainer_state import TrainerState, load_state

FREE = {"epochs", "eval_every", "eval_batches", "checkpoint_every"} | {
    "gradient_checkpointing",
    "deterministic",
}
"""Training options that may change on resume: they do not move the weights of a step."""


def settings_of(options: TaskOptions, recipe: Group, hashes: Mapping[str, str]) -> dict[str, Any]:
    """What decides the weights after a given step, as plain values.

    Args:
        recipe: the options of training.
        hashes: of what it starts from, by what it is: `base weights`, `tokenised data`.
    """
    return {
        "model": options.model,
        "precision": options.precision,
        **hashes,
        **recipe.model_dump(mode="json", exclude=FREE),
    }


def finished_before(
    checkpoints: Checkpoints,
    kind: type[Result],
    settings: dict[str, Any],
    epochs: int,
    progress: Progress,
) -> Result | None:
    """What training in this folder came to; None where it has not finished.

    Raises:
        InputError: it had other settings.
    """
    found = checkpoints.finished(kind)
    if found is None:
        return None
    result, its_own = found
    if (its_own, result.epochs) != (settings, epochs):
        raise finished_problem(result.checkpoint, result.epochs, epochs)
    progress.note(f"Training of this run had finished ({epochs} epochs); nothing is left.")
    return result


def go_on(
    checkpoints: Checkpoints, settings: dict[str, Any], epochs: int, progress: Progress
) -> tuple[Path | None, TrainerState]:
    """The newest checkpoint and where training stood there; None and the beginning where there is
    no checkpoint.

    Raises:
        InputError: as `check_resume`.
        TrainingError: its trainer state cannot be read.
    """
    start = checkpoints.newest()
    if start is None:
        return None, TrainerState(settings)
    state = load_state(start)
    check_resume(start, state, settings, epochs)
    checkpoints.settle(start.name, state.best)
    progress.note(f"Going on from {start.name}, after {state.step} steps.")
    return start, state


def stopped(
    stop: StopFlag, state: TrainerState, total_steps: int, newest: Path | None
) -> RunStopped:
    """What to say of a training that was stopped and whose `newest` checkpoint is written."""
    reason = stop.reason or "asked to"
    if newest is None:
        return RunStopped(f"Stopped before the first step ({reason}): there is nothing to keep.")
    return RunStopped(
        f"Stopped after {state.step} of {total_steps} steps ({reason}). Resume the run to go on "
        f"from {newest}"
    )


def check_resume(
    checkpoint: Path, state: TrainerState, settings: dict[str, Any], epochs: int
) -> None:
    """May training go on from `checkpoint` with these settings for `epochs` in all?

    Raises:
        InputError: every setting that differs from the run's own, at once.
    """
    way_out = "resume with the run's own value, or start a new run"
    if (checkpoint / WEIGHTS_FILE).is_file():
        way_out += f" with --weights {checkpoint}"
    problems = [
        Problem(
            name if " " in name else flag(name),
            settings.get(name),
            f"the run was started with {state.settings.get(name)!r}",
            way_out,
        )
        for name in {**settings, **state.settings}
        if settings.get(name) != state.settings.get(name)
    ]
    if state.epoch + (state.batches > 0) > epochs:
        problems.append(
            Problem(
                "--epochs",
                epochs,
                f"the run is in epoch {state.epoch + 1} already"
                if state.batches
                else f"the run has trained {state.epoch} epochs already",
                f"take at least {state.epoch + (state.batches > 0)}",
            )
        )
    if problems:
        raise InputError(problems)


def finished_problem(checkpoint: Path, epochs_trained: int, epochs: int) -> InputError:
    """The error for a run that has finished and is asked for something else than it did."""
    return InputError(
        Problem(
            "--resume",
            None,
            f"training of this run has finished, with {epochs_trained} epochs and its own "
            "settings; it cannot go on with others",
            f"start a new run from its weights: --weights {checkpoint}"
            + (f" --epochs {epochs - epochs_trained}" if epochs > epochs_trained else ""),
        )
    )
