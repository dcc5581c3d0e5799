"""What the evaluation harness found of a run's model, kept with the run in MLflow."""

from __future__ import annotations

from collections.abc import Mapping

from twolevers.records import Role
from twolevers.settings import Home, load_settings
from twolevers.tracking.mlflow_tracker import attach_run
from twolevers.tracking.values import clean_key


def track_benchmarks(
    run_id: str, role: Role, found: Mapping[str, Mapping[str, float]], *, limit: int | None
) -> None:
    """Metrics `lm-eval/ROLE/TASK/METRIC`; of a part of the entries `lm-eval/ROLE/first-N/…`.

    A later evaluation of the same task replaces the earlier one.
    """
    of = f"lm-eval/{role}" if limit is None else f"lm-eval/{role}/first-{limit}"
    figures = {
        clean_key(f"{of}/{task}/{metric}"): value
        for task, metrics in found.items()
        for metric, value in metrics.items()
    }
    with attach_run(home=Home(), settings=load_settings(), run_id=run_id) as tracker:
        tracker.log_metrics(figures, step=0)
