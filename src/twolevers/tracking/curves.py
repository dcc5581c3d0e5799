"""The course of a run's metrics, and its small files where a server keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from twolevers.settings import Home, Settings
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.store import open_store

if TYPE_CHECKING:
    from mlflow import MlflowClient


def metric_history(client: MlflowClient, run_id: str, name: str) -> list[tuple[int, float]]:
    """What was logged of a metric: (step, value), steps rising, the last value of each."""
    history = client.get_metric_history(run_id, name)
    return sorted({m.step: m.value for m in sorted(history, key=lambda m: m.timestamp)}.items())


def read_curves(
    run_id: str, metrics: Iterable[str], home: Home, settings: Settings
) -> dict[str, list[tuple[int, float]]]:
    """Step metrics of a run by name, as `metric_history`; empty where nothing was logged."""
    client = open_store(home, settings).client
    return {name: metric_history(client, run_id, name) for name in metrics}


def fetch_files(
    info: RunInfo, files: Iterable[str], folder: Path, home: Home, settings: Settings
) -> None:
    """Fetch the run's artifacts of these names into `folder`; those that there are not are left
    out. For a run of another machine, whose artifacts lie behind a server."""
    from mlflow.exceptions import MlflowException

    client = open_store(home, settings).client
    for name in files:
        try:
            client.download_artifacts(str(info.run_id), name, str(folder))
        except (MlflowException, OSError):  # a run that has not come so far
            continue
