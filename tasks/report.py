"""The run's summary, tables and picture."""

from __future__ import annotations

from prefect import task

from tasks.caching import stage
from tasks.kept import Kept, keep, read_kept
from twolevers.records import (
    FineTuneRun,
    Responses,
    RunSummary,
    Scores,
    TokenisedData,
    TrainingResult,
)
from twolevers.report.write import write_report
from twolevers.tracking import names
from twolevers.tracking.runs import track


def report(
    run: FineTuneRun,
    data: TokenisedData,
    training: TrainingResult,
    responses: list[Responses],
    scores: list[Scores],
) -> RunSummary:
    """Everything that a finished run leaves to look at, in its folder and in MLflow."""
    return read_kept(report_run(run, data, training, responses, scores), RunSummary)


@task(task_run_name="report", **stage("report"))
def report_run(
    run: FineTuneRun,
    data: TokenisedData,
    training: TrainingResult,
    responses: list[Responses],
    scores: list[Scores],
) -> Kept:
    """The report, and its figures as `summary.json`."""
    with track(run) as tracker:
        summary = write_report(run, data, training, responses, scores, tracker)
    return keep(summary, run.folder / names.SUMMARY_FILE)
