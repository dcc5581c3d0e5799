"""Whether a run may go on: the same data, the same start, the same recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twolevers.errors import InputError, Problem
from twolevers.options import FineTuneOptions, flag
from twolevers.records import TokenisedData, WeightsFolder
from twolevers.training.trainer_state import TrainerState

FREE = {"epochs", "eval_every", "eval_batches", "checkpoint_every"} | {
    "gradient_checkpointing",
    "deterministic",
}
"""Training options that may change on resume: they do not move the weights of a step."""


def settings_of(
    weights: WeightsFolder, data: TokenisedData, options: FineTuneOptions
) -> dict[str, Any]:
    """What decides the weights after a given step, as plain values."""
    training = options.training.model_dump(mode="json", exclude=FREE)
    return {
        "model": options.model,
        "precision": options.precision,
        "base weights": weights.sha256,
        "tokenised data": data.sha256,
        **training,
    }


def check_resume(
    checkpoint: Path, state: TrainerState, settings: dict[str, Any], epochs: int
) -> None:
    """May training go on from `checkpoint` with these settings for `epochs` in all?

    Raises:
        InputError: every setting that differs from the run's own, at once.
    """
    way_out = f"resume with the run's own value, or start a new run with --weights {checkpoint}"
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
