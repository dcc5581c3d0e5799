"""What a stage that trains has around it, whatever it trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tasks.artifacts import live_progress
from tasks.progress import stage_progress
from twolevers.errors import RunStopped
from twolevers.interrupt import StopFlag, stop_on_signals
from twolevers.progress import Progress
from twolevers.records import OpenRun
from twolevers.tracking.run_tracker import MlflowTracker
from twolevers.tracking.runs import track


@contextmanager
def training_stage(
    run: OpenRun, artifact: str
) -> Iterator[tuple[MlflowTracker, Progress, StopFlag]]:
    """The run's tracker, its progress (live in the artifact of that key), the flag of a stop.

    Raises:
        RunStopped: the stop was asked for after the last step, when training reads the flag no
            more; what was trained is kept.
    """
    with (
        stage_progress() as shown,
        live_progress(shown, artifact) as progress,
        track(run) as tracker,
        stop_on_signals() as stop,
    ):
        yield tracker, progress, stop
        if stop:
            raise RunStopped(f"Stopped after training ({stop.reason}); the model is kept.")
