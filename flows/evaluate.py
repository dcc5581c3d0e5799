"""Any model scored again: other data, another judge, no training."""

from __future__ import annotations

from typing import Annotated

from prefect import flow
from prefect.runtime import flow_run
from prefect.states import Cancelled, State

from flows.addresses import mlflow_address
from flows.fine_tune import fetch_both
from flows.form import Option
from tasks.artifacts import show_evaluation
from tasks.evaluate import evaluate as score
from tasks.evaluation import report_evaluation
from tasks.fetch import fetch_weights
from tasks.generate import generate
from tasks.judge import judge as ask_judge
from tasks.notify import link_to_mlflow
from tasks.output import output_in_log
from tasks.progress import run_warning
from tasks.slot import device_slot
from tasks.tags import untagged_stages
from tasks.tokenise import tokenise
from twolevers.errors import RunStopped, TwoleversError
from twolevers.evaluation.judge_asking import check_judge
from twolevers.evaluation.judge_options import JudgeOptions
from twolevers.options import FROM_SETTINGS, DataOptions, GenerationOptions, Precision
from twolevers.records import DatasetFile, EvalSplit, FineTuneRun, TokenisedData, WeightsFolder
from twolevers.tracking.evaluated import Evaluated, find_evaluated
from twolevers.tracking.evaluations import Evaluation, evaluation_run


@flow(
    name="evaluate",
    flow_run_name="evaluate {model}",
    log_prints=False,
    persist_result=True,
    result_serializer="json",
)
def evaluate(
    model: str = "latest",
    device: Annotated[str, Option("device")] = FROM_SETTINGS,
    precision: Annotated[Precision, Option("precision")] = "auto",
    dataset: str | None = None,
    eval_split: EvalSplit = "auto",
    weights: Annotated[str | None, Option("weights")] = None,
    data: DataOptions | None = None,
    generation: GenerationOptions | None = None,
    judge: JudgeOptions | None = None,
) -> Evaluation | State[Evaluation]:
    """Score a model, without training it.

    A run's model is asked as the run asked it, on the run's own data, but for what is given here.

    Args:
        model: Run id (of MLflow or Prefect, or a unique beginning), checkpoint folder, latest, or
            the name of a model as it is before fine-tuning.
        dataset: Other data than the run's own.
        eval_split: What of the data is scored. `auto`: all of a file that is not the run's own, of
            any other data the test split.
        data: How entries become tokens; what is not given is as the run had it.
        generation: How answers are drawn; what is not given is as the run had it.
        judge: Who scores the answers from 0 to 100; nobody where it is left out.
    """
    evaluated = find_evaluated(
        model,
        device=device,
        precision=precision,
        dataset=dataset,
        weights=weights,
        data=data,
        generation=generation,
        eval_split=eval_split,
    )
    judge = check_judge(judge) if judge else None
    try:
        with (
            output_in_log(),
            untagged_stages(),
            evaluation_run(evaluated, flow_run_id=flow_run.id, warn=run_warning()) as opened,
        ):
            link_to_mlflow(opened, mlflow_address())
            return _stages(opened, evaluated, judge).in_short()
    except RunStopped as reason:
        return Cancelled(message=str(reason))


def _stages(run: FineTuneRun, evaluated: Evaluated, judge: JudgeOptions | None) -> Evaluation:
    """The stages of a fine-tuning but for the training, and the judge."""
    dataset, data, model = _fetched(run, evaluated)
    with device_slot(run):
        answers = generate(run, evaluated.role, model.path, data, evaluated.split)
        scores = score(run, model.path, data, answers, evaluated.split)
    judged, failed = None, None
    try:
        judged = ask_judge(run, answers, judge) if judge else None
    except TwoleversError as error:  # the scores that need no judge are kept
        failed = error
    evaluation = report_evaluation(run, evaluated, dataset, data, answers, scores, judged)
    show_evaluation(evaluation)
    if failed:
        raise failed
    return evaluation


def _fetched(
    run: FineTuneRun, evaluated: Evaluated
) -> tuple[DatasetFile, TokenisedData, WeightsFolder]:
    """Data and weights; a run's own data is taken as the run had it."""
    if evaluated.dataset and evaluated.data:
        weights = fetch_weights(run.options.model, run.options.weights)
        return evaluated.dataset, evaluated.data, weights
    dataset, weights = fetch_both(run)
    seed = run.options.training.seed
    return dataset, tokenise(dataset, run.options.data, seed, evaluated.whole), weights


if __name__ == "__main__":
    evaluate()
