"""The main job: fetch, tokenise, fine-tune, generate, evaluate, report."""

from __future__ import annotations

from typing import Annotated

from prefect import flow
from prefect.runtime import flow_run
from prefect.states import Cancelled, State

from flows.addresses import mlflow_address
from flows.form import Option
from tasks.artifacts import show_results, show_stopped
from tasks.evaluate import evaluate
from tasks.fetch import fetch_dataset, fetch_weights, stopped
from tasks.fine_tune import fine_tune_model
from tasks.forecast import forecast
from tasks.generate import generate
from tasks.notify import link_to_mlflow, tell_if_worse
from tasks.output import output_in_log
from tasks.progress import run_warning
from tasks.report import report
from tasks.slot import device_slot
from tasks.tags import untagged_stages
from tasks.tokenise import tokenise
from twolevers.errors import RunStopped
from twolevers.options import (
    FROM_SETTINGS,
    DataOptions,
    FineTuneOptions,
    GenerationOptions,
    Precision,
    RunOptions,
    TrainingOptions,
)
from twolevers.records import (
    DatasetFile,
    FineTuneRun,
    RunSummary,
    TokenisedData,
    WeightsFolder,
)
from twolevers.settings import load_settings
from twolevers.tracking.runs import fine_tune_run, kept_inputs


def run_name() -> str:
    """`gpt2-small (124M) on cuda`, as far as the parameters say before they are checked."""
    settings, asked = load_settings(), flow_run.parameters
    levers = {"model": settings.choose_model, "device": settings.choose_device}
    given = {name: asked.get(name, FROM_SETTINGS) for name in levers}
    chosen = {
        name: levers[name] if given[name] == FROM_SETTINGS else given[name] for name in levers
    }
    return f"{chosen['model']} on {chosen['device']}"


@flow(
    name="fine-tune",
    flow_run_name=run_name,
    log_prints=False,
    persist_result=True,
    result_serializer="json",
)
def fine_tune(
    model: Annotated[str, Option("model")] = FROM_SETTINGS,
    device: Annotated[str, Option("device")] = FROM_SETTINGS,
    precision: Annotated[Precision, Option("precision")] = "auto",
    dataset: Annotated[str, Option("dataset")] = "embedded",
    weights: Annotated[str | None, Option("weights")] = None,
    data: DataOptions = DataOptions(),  # noqa: B008 - frozen
    training: TrainingOptions = TrainingOptions(),  # noqa: B008
    generation: GenerationOptions = GenerationOptions(),  # noqa: B008
    run: RunOptions = RunOptions(),  # noqa: B008
    resume_from: str | None = None,
) -> RunSummary | State[RunSummary]:
    """Fine-tune a model on instructions, tracked and scored.

    The options describe themselves: `twolevers.options`.

    Args:
        data: How entries become tokens.
        training: Chapter 7's recipe unless told otherwise.
        generation: How answers are drawn.
        run: What the run keeps and which machine parts it uses.
        resume_from: A killed or stopped run to continue: run id, checkpoint folder or latest.
    """
    asked = FineTuneOptions(
        model=model,
        device=device,
        precision=precision,
        dataset=dataset,
        weights=weights,
        data=data,
        training=training,
        generation=generation,
        run=run,
    )
    try:
        with (
            output_in_log(),
            untagged_stages(),
            fine_tune_run(
                asked, flow_run_id=flow_run.id, resume_from=resume_from, warn=run_warning()
            ) as opened,
        ):
            link_to_mlflow(opened, mlflow_address())
            return _stages(opened).in_short()
    except RunStopped as reason:
        show_stopped(str(reason), "fine-tune")
        return Cancelled(message=str(reason))


def _stages(run: FineTuneRun) -> RunSummary:
    """The stages in their order. A run that goes on takes the data that it began with."""
    if run.resumed and (kept := kept_inputs(run.folder)):
        weights = fetch_weights(run.options.model, run.options.weights)
        return train_and_score(run, kept.dataset, weights, kept.data)
    dataset, weights = fetch_both(run)
    data = tokenise(dataset, run.options.data, run.options.training.seed)
    return train_and_score(run, dataset, weights, data)


def fetch_both(run: FineTuneRun) -> tuple[DatasetFile, WeightsFolder]:
    """The two fetches, side by side."""
    stopped.clear()
    fetched = fetch_dataset.submit(run.options.dataset)
    base = fetch_weights.submit(run.options.model, run.options.weights)
    try:
        return fetched.result(), base.result()
    except BaseException:
        stopped.set()  # where one fails or is stopped, the other need not be waited for
        raise


def train_and_score(
    run: FineTuneRun, dataset: DatasetFile, weights: WeightsFolder, data: TokenisedData
) -> RunSummary:
    """From the tokens on: the stages that use the device, then the report."""
    with device_slot(run):
        forecast(run, weights, data)
        tuned = fine_tune_model(run, dataset, weights, data)
        models = {"base": weights.path, "tuned": tuned.checkpoint}
        answers = [generate(run, role, path, data) for role, path in models.items()]
        scores = [evaluate(run, models[answered.role], data, answered) for answered in answers]
    summary = report(run, data, tuned, answers, scores)
    show_results(run, summary, mlflow_address())
    tell_if_worse(run, summary)
    return summary


if __name__ == "__main__":
    fine_tune()
