"""The forecast of a run that is about to train, kept with the run to be held against it."""

from __future__ import annotations

from collections.abc import Callable

from twolevers.device import find_device
from twolevers.estimate import estimate
from twolevers.records import FineTuneRun, TokenisedData, WeightsFolder
from twolevers.tracking.runs import track
from twolevers.training.checkpoint import has_checkpoint

SECONDS = 3.0
"""Longest time to measure steps before a run; one begun is ended."""


def forecast_run(
    run: FineTuneRun, weights: WeightsFolder, data: TokenisedData, say: Callable[[str], None]
) -> None:
    """Say what the run will hold in memory and how long it will train, and note both with it.

    A run that goes on from a checkpoint has shown both: nothing is said of it.

    Raises:
        InputError: it does not fit, and the options do not say to try nevertheless.
    """
    if has_checkpoint(run.folder):
        return
    device = find_device(run.options.device)
    found = estimate(run.options, device, data, weights=weights.path, seconds=SECONDS)
    for line in found.lines():
        say(line)
    figures = {"forecast/peak_memory_bytes": float(found.memory.total)}
    if found.time and found.time.high is not None:  # else it is too rough to be held against
        figures["forecast/train_seconds"] = found.time.seconds
    with track(run) as tracker:
        tracker.log_metrics(figures, step=0)
    if found.too_large and run.options.run.check_memory:
        raise found.too_large
