"""The run's summary, tables and picture."""

from __future__ import annotations

from prefect import task

from tasks.caching import stage
from twolevers.records import (
    FineTuneRun,
    Responses,
    RunSummary,
    Scores,
    TokenisedData,
    TrainingResult,
)
from twolevers.report.write import write_report
from twolevers.tracking.runs import track


@task(task_run_name="report", **stage("report"))
def report(
    run: FineTuneRun,
    data: TokenisedData,
    training: TrainingResult,
    responses: list[Responses],
    scores: list[Scores],
) -> RunSummary:
    """Everything that a finished run leaves to look at, in its folder and in MLflow."""
    with track(run) as tracker:
        return write_report(run, data, training, responses, scores, tracker)
