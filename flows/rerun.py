"""A run once more, exactly, and how far apart the two end."""

from __future__ import annotations

from prefect import flow
from prefect.runtime import flow_run
from prefect.states import Cancelled, State

from flows.addresses import mlflow_address
from flows.fine_tune import train_and_score
from tasks.artifacts import show_stopped
from tasks.fetch import fetch_weights
from tasks.notify import link_to_mlflow
from tasks.output import output_in_log
from tasks.progress import run_warning
from tasks.rerun import compare_runs
from tasks.tags import untagged_stages
from twolevers.errors import RunStopped
from twolevers.tracking.rerun import Comparison, check_weights, find_original
from twolevers.tracking.runs import fine_tune_run


@flow(
    name="rerun",
    flow_run_name="rerun of {run}",
    log_prints=False,
    persist_result=True,
    result_serializer="json",
)
def rerun(run: str = "latest") -> Comparison | State[Comparison]:
    """Repeat a run exactly and compare the losses.

    The same resolved options, seed, data and base weights; a rerun needs the run and nothing
    else. What differs today (code, libraries, device) is said beside the losses.

    Args:
        run: Run id (of MLflow or Prefect, or a unique beginning), checkpoint folder, or latest,
            the newest that finished.
    """
    original = find_original(run, flow_run.id)
    options = original.options
    try:
        with (
            output_in_log(),
            untagged_stages(),
            fine_tune_run(
                options, flow_run_id=flow_run.id, rerun_of=original.run_id, warn=run_warning()
            ) as opened,
        ):
            link_to_mlflow(opened, mlflow_address())
            weights = check_weights(original, fetch_weights(options.model, options.weights))
            summary = train_and_score(opened, original.dataset, weights, original.data)
            return compare_runs(original, opened, summary)
    except RunStopped as reason:
        show_stopped(str(reason), "fine-tune")
        return Cancelled(message=str(reason))


if __name__ == "__main__":
    rerun()
