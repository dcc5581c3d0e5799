"""What an evaluation without training leaves to look at."""

from __future__ import annotations

from prefect import task

from tasks.caching import stage
from tasks.kept import Kept, keep, read_kept
from twolevers.evaluation.judge import JudgeResult
from twolevers.records import DatasetFile, FineTuneRun, Responses, Scores, TokenisedData
from twolevers.tracking import names
from twolevers.tracking.evaluated import Evaluated
from twolevers.tracking.evaluations import Evaluation, note_evaluation
from twolevers.tracking.runs import track


def report_evaluation(
    run: FineTuneRun,
    evaluated: Evaluated,
    dataset: DatasetFile,
    data: TokenisedData,
    responses: Responses,
    scores: Scores,
    judged: JudgeResult | None,
) -> Evaluation:
    """Scores and answers, in the run's folder and in MLflow."""
    kept = note_scores(run, evaluated, dataset, data, responses, scores, judged)
    return read_kept(kept, Evaluation)


@task(task_run_name="report", **stage("report evaluation"))
def note_scores(
    run: FineTuneRun,
    evaluated: Evaluated,
    dataset: DatasetFile,
    data: TokenisedData,
    responses: Responses,
    scores: Scores,
    judged: JudgeResult | None,
) -> Kept:
    """The evaluation as `evaluation.json`, and in MLflow."""
    with track(run) as tracker:
        found = note_evaluation(tracker, run, evaluated, dataset, data, responses, scores, judged)
    return keep(found, run.folder / names.EVALUATION_FILE)
