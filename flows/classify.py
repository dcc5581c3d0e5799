"""Classifying texts: fetch, prepare, train, evaluate, report."""

from __future__ import annotations

from typing import Annotated

from prefect import flow
from prefect.runtime import flow_run
from prefect.states import Cancelled, State

from flows.addresses import mlflow_address
from flows.fine_tune import run_name
from flows.form import Option
from tasks.artifacts import show_classification, show_stopped
from tasks.classify import evaluate_model, prepare_texts, report_model, train_model
from tasks.fetch import fetch_dataset, fetch_weights, stopped
from tasks.notify import link_to_mlflow
from tasks.output import output_in_log
from tasks.progress import run_warning
from tasks.slot import device_slot
from tasks.tags import untagged_stages
from twolevers.classification.options import (
    DATASET,
    ClassifierRunOptions,
    ClassifierTrainingOptions,
    ClassifyOptions,
    LabelledDataOptions,
)
from twolevers.classification.records import ClassificationRun, ClassificationSummary, LabelledData
from twolevers.errors import RunStopped
from twolevers.options import FROM_SETTINGS, Precision
from twolevers.records import DatasetFile, WeightsFolder
from twolevers.tracking.classify_runs import CLASSIFICATIONS, kept_texts


@flow(
    name="classify",
    flow_run_name=run_name,
    log_prints=False,
    persist_result=True,
    result_serializer="json",
)
def classify(
    model: Annotated[str, Option("model")] = FROM_SETTINGS,
    device: Annotated[str, Option("device")] = FROM_SETTINGS,
    precision: Annotated[Precision, Option("precision")] = "auto",
    dataset: Annotated[str, Option("dataset")] = DATASET,
    weights: Annotated[str | None, Option("weights")] = None,
    data: LabelledDataOptions = LabelledDataOptions(),  # noqa: B008 - frozen
    training: ClassifierTrainingOptions = ClassifierTrainingOptions(),  # noqa: B008
    run: ClassifierRunOptions = ClassifierRunOptions(),  # noqa: B008
    resume_from: str | None = None,
) -> ClassificationSummary | State[ClassificationSummary]:
    """Train a model to put texts into classes, tracked and scored.

    The options describe themselves: `twolevers.classification.options`.

    Args:
        data: How a column of texts and a column of labels become tokens.
        training: Chapter 6's recipe unless told otherwise.
        run: Which machine parts the run uses.
        resume_from: A killed or stopped run to continue: run id, checkpoint folder or latest.
    """
    asked = ClassifyOptions(
        model=model,
        device=device,
        precision=precision,
        dataset=dataset,
        weights=weights,
        data=data,
        training=training,
        run=run,
    )
    try:
        with (
            output_in_log(),
            untagged_stages(),
            CLASSIFICATIONS.opened(
                asked, flow_run_id=flow_run.id, resume_from=resume_from, warn=run_warning()
            ) as opened,
        ):
            link_to_mlflow(opened, mlflow_address())
            return _stages(opened)
    except RunStopped as reason:
        show_stopped(str(reason), "classify")
        return Cancelled(message=str(reason))


def _stages(run: ClassificationRun) -> ClassificationSummary:
    """The stages in their order. A run that goes on takes the data that it began with."""
    if run.resumed and (kept := kept_texts(run.folder)):
        weights = fetch_weights(run.options.model, run.options.weights)
        return train_and_score(run, kept.dataset, weights, kept.data)
    stopped.clear()
    base = fetch_weights.submit(run.options.model, run.options.weights)
    try:
        dataset = fetch_dataset(run.options.dataset)
        data = prepare_texts(run, dataset)
        weights = base.result()
    except BaseException:
        stopped.set()  # where one fails or is stopped, the other need not be waited for
        raise
    return train_and_score(run, dataset, weights, data)


def train_and_score(
    run: ClassificationRun, dataset: DatasetFile, weights: WeightsFolder, data: LabelledData
) -> ClassificationSummary:
    """From the tokens on: the stages that use the device, then the report."""
    with device_slot(run):
        trained = train_model(run, dataset, weights, data)
        scores = evaluate_model(run, data, trained)
    summary = report_model(run, data, trained, scores)
    show_classification(run, summary, mlflow_address())
    return summary


if __name__ == "__main__":
    classify()
