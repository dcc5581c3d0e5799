"""The stages of a classification after the fetches."""

from __future__ import annotations

from prefect import task

from tasks.caching import stage
from tasks.progress import stage_progress
from tasks.training import training_stage
from twolevers.classification.data import prepare
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
from twolevers.records import DatasetFile, WeightsFolder
from twolevers.report.classification import SCORES_FILE, write_classification
from twolevers.tracking.classify_runs import note_classify_inputs
from twolevers.tracking.inputs import DATA_FOLDER
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
    """The classifier, from the base weights, or on from the run's last checkpoint."""
    with training_stage(run, "classify-progress") as (tracker, progress, stop):
        note_classify_inputs(tracker, run, dataset, weights, data)
        return train_classifier(
            weights,
            data,
            run.options,
            device=find_device(run.options.device),
            folder=run.folder,
            tracker=tracker,
            progress=progress,
            stop=stop,
        )


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
