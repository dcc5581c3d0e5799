"""The stage that the two levers decide about."""

from __future__ import annotations

from prefect import task

from tasks.caching import stage
from tasks.training import training_stage
from twolevers.device import find_device
from twolevers.records import (
    DatasetFile,
    FineTuneRun,
    TokenisedData,
    TrainingResult,
    WeightsFolder,
)
from twolevers.tracking.runs import note_inputs
from twolevers.training.checkpoint import has_checkpoint
from twolevers.training.fine_tune import fine_tune


@task(task_run_name="fine-tune {run.options.model} on {run.hardware}", **stage("fine-tune"))
def fine_tune_model(
    run: FineTuneRun, dataset: DatasetFile, weights: WeightsFolder, data: TokenisedData
) -> TrainingResult:
    """The fine-tuned model: from the base weights, or on from the run's last checkpoint."""
    with training_stage(run, "fine-tune-progress") as (tracker, progress, stop):
        note_inputs(tracker, run, dataset, weights, data)
        return fine_tune(
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
