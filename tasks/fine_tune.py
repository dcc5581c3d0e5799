"""The stage that the two levers decide about."""

from __future__ import annotations

from prefect import task

from tasks.artifacts import live_progress
from tasks.caching import stage
from tasks.progress import stage_progress
from twolevers.device import find_device
from twolevers.errors import RunStopped
from twolevers.interrupt import stop_on_signals
from twolevers.records import (
    DatasetFile,
    FineTuneRun,
    TokenisedData,
    TrainingResult,
    WeightsFolder,
)
from twolevers.tracking.runs import note_inputs, track
from twolevers.training.checkpoint import has_checkpoint
from twolevers.training.fine_tune import fine_tune


@task(task_run_name="fine-tune {run.options.model} on {run.hardware}", **stage("fine-tune"))
def fine_tune_model(
    run: FineTuneRun, dataset: DatasetFile, weights: WeightsFolder, data: TokenisedData
) -> TrainingResult:
    """The fine-tuned model: from the base weights, or on from the run's last checkpoint."""
    with (
        stage_progress() as shown,
        live_progress(shown, "fine-tune-progress") as progress,
        track(run) as tracker,
        stop_on_signals() as stop,
    ):
        note_inputs(tracker, run, dataset, weights, data)
        result = fine_tune(
            weights,
            data,
            run.options,
            device=find_device(run.options.device),
            folder=run.folder,
            tracker=tracker,
            progress=progress,
            stop=stop,
            resume=has_checkpoint(run.folder),
        )
        if stop:  # asked for after the last step
            raise RunStopped(f"Stopped after training ({stop.reason}); the model is kept.")
    return result
