"""The two fetches, the only stages that need a network; both are retried where that may help."""

from __future__ import annotations

import threading
from typing import Any

from prefect import task
from prefect.tasks import exponential_backoff

from tasks.caching import stage
from tasks.progress import stage_progress
from twolevers.data.fetch import fetch_dataset as fetch_dataset_file
from twolevers.errors import FetchError
from twolevers.models.fetch import fetch_weights as fetch_weights_folder
from twolevers.records import DatasetFile, WeightsFolder
from twolevers.settings import Home

stopped = threading.Event()
"""Set by the flow when it ends early: fetches run in threads, and a signal reaches the main one."""


async def may_help(_task: Any, _run: Any, state: Any) -> bool:
    """A retry helps against a network that failed, not against a wrong name or a bad file."""
    error = await state.aresult(raise_on_failure=False)
    return isinstance(error, FetchError) and error.retryable


RETRIES: dict[str, Any] = {
    "retries": 2,
    "retry_delay_seconds": exponential_backoff(backoff_factor=2),
    "retry_condition_fn": may_help,
}


@task(task_run_name="fetch dataset {dataset}", **stage("fetch dataset"), **RETRIES)
def fetch_dataset(dataset: str) -> DatasetFile:
    """The data file, on this disk and verified."""
    with stage_progress(stopped) as progress:
        return fetch_dataset_file(dataset, Home(), progress)


@task(task_run_name="fetch weights {model}", **stage("fetch weights"), **RETRIES)
def fetch_weights(model: str, weights: str | None) -> WeightsFolder:
    """The base weights, on this disk and verified."""
    with stage_progress(stopped) as progress:
        return fetch_weights_folder(model, weights, Home(), progress)
