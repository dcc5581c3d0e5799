"""A rerun beside the run that it repeats."""

from __future__ import annotations

from prefect import task
from prefect.logging import get_run_logger

from tasks.artifacts import show_comparison
from tasks.caching import stage
from twolevers.records import FineTuneRun, RunSummary
from twolevers.tracking.rerun import Comparison, Original, compare


@task(task_run_name="compare with {original.run_id}", **stage("compare"))
def compare_runs(original: Original, run: FineTuneRun, summary: RunSummary) -> Comparison:
    """Losses and weights of both, and what is different today."""
    comparison = compare(original, run, summary)
    for line in str(comparison).splitlines():
        get_run_logger().info(line)
    show_comparison(comparison)
    return comparison
