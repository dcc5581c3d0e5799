"""The stages of a classification after the fetches."""

from __future__ import annotations

from prefect import task

from tasks.artifacts import live_progress
from tasks.caching import stage
from tasks.progress import stage_progress
from twolevers.classification.data import DATA_FOLDER, prepare
from twolevers.classification.evaluate import evaluate_classifier
from twolevers.classification.records import (
    ClassificationRun,
    ClassificationSummary,
    ClassifierResult,
    ClassifierScores,
    LabelledData,
)
from twolevers.classification.train import train_classifier
from twolevers.device import find_device
from twolevers.errors import RunStopped
from twolevers.interrupt import stop_on_signals
from twolevers.records import DatasetFile, WeightsFolder
from twolevers.report.classification import SCORES_FILE, write_classification
from twolevers.tracking.classify_runs import note_classify_inputs
from twolevers.tracking.runs import track


@task(task_run_name="prepare {dataset.name}", **stage("prepare texts"))
def prepare_texts(run: ClassificationRun, dataset: DatasetFile) -> LabelledData:
    """Texts and labels as tokens, in three splits, in the run's folder."""
    with stage_progress() as progress:
        return prepare(dataset, run.options, run.folder / DATA_FOLDER, progress)


@task(task_run_name="train {run.options.model} on {run.hardware}", **stage("train classifier"))
def train_model(
    run: ClassificationRun, dataset: DatasetFile, weights: WeightsFolder, data: LabelledData
) -> ClassifierResult:
    """The classifier, from the base weights."""
    with (
        stage_progress() as shown,
        live_progress(shown, "classify-progress") as progress,
        track(run) as tracker,
        stop_on_signals() as stop,
    ):
        note_classify_inputs(tracker, run, dataset, weights, data)
        result = train_classifier(
            weights,
            data,
            run.options,
            device=find_device(run.options.device),
            folder=run.folder,
            tracker=tracker,
            progress=progress,
            stop=stop,
        )
        if stop:  # asked for after the last step
            raise RunStopped(f"Stopped after training ({stop.reason}); the model is kept.")
    return result


@task(task_run_name="evaluate the classifier", **stage("evaluate classifier"))
def evaluate_model(
    run: ClassificationRun, data: LabelledData, training: ClassifierResult
) -> ClassifierScores:
    """Scores on the three splits."""
    with stage_progress() as progress:
        return evaluate_classifier(
            training.checkpoint,
            data,
            device=find_device(run.options.device),
            precision=run.options.precision,
            output=run.folder / SCORES_FILE,
            progress=progress,
        )


@task(task_run_name="report", **stage("report classifier"))
def report_model(
    run: ClassificationRun,
    data: LabelledData,
    training: ClassifierResult,
    scores: ClassifierScores,
) -> ClassificationSummary:
    """Everything that a finished classification leaves to look at, in its folder and in MLflow."""
    with track(run) as tracker:
        return write_classification(run, data, training, scores, tracker)
