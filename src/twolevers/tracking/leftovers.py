"""What could not be sent to the tracking store, kept in the run's folder and sent later: a file of
metrics, parameters, tags and the status, and a folder of files."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twolevers.errors import first_line
from twolevers.files import atomic_file
from twolevers.settings import Home

if TYPE_CHECKING:
    from mlflow import MlflowClient

FILE_NAME = "tracking-leftover.jsonl"
FILES_NAME = "tracking-leftover"
REFUSED_NAME = "tracking-refused.jsonl"
REFUSALS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "INVALID_STATE", "BAD_REQUEST"}
"""MLflow's error codes that trying again does not help."""
BATCH = 1000


def write_leftovers(folder: Path, entries: Iterable[Mapping[str, Any]]) -> Path:
    """Add entries (`kind`: metric, param, tag or status) to the run's file of leftovers."""
    path = folder / FILE_NAME
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    with atomic_file(path) as temporary:
        temporary.write_text(before + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def keep_file(folder: Path, path: Path, to: str) -> None:
    """Copy a file to where it waits for being stored under `to` of the run's artifacts."""
    place = folder / FILES_NAME / to
    place.mkdir(parents=True, exist_ok=True)
    with atomic_file(place / path.name) as temporary:
        shutil.copyfile(path, temporary)


def send_files(client: MlflowClient, run_id: str, folder: Path) -> None:
    """Store the files that wait in the run's folder; raises whatever MLflow raises."""
    waiting = folder / FILES_NAME
    if waiting.is_dir():
        client.log_artifacts(run_id, str(waiting))
        shutil.rmtree(waiting)


def read_leftovers(path: Path) -> list[dict[str, Any]]:
    """The entries of a file of leftovers; a line that is none is passed over."""
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and "kind" in entry:
                entries.append(entry)
    return entries


def send_leftovers(
    client: MlflowClient, home: Home, warn: Callable[[str], None] | None = None
) -> None:
    """Send every run's leftovers; what is refused again stays in its file."""
    from mlflow.exceptions import MlflowException

    folders = {
        path.parent for name in (FILE_NAME, FILES_NAME) for path in home.runs.glob(f"*/{name}")
    }
    for folder in sorted(folders):
        path = folder / FILE_NAME
        try:
            if client.get_run(folder.name).info.lifecycle_stage == "active":
                if path.is_file():
                    _send(client, folder.name, read_leftovers(path))
                    path.unlink(missing_ok=True)
                path = folder / FILES_NAME
                send_files(client, folder.name, folder)
        except Exception as error:  # a store's failure is never ours
            code = error.error_code if isinstance(error, MlflowException) else ""
            if code == "RESOURCE_DOES_NOT_EXIST":
                continue
            if code in REFUSALS and path.is_file():
                path = path.replace(path.with_name(REFUSED_NAME))
            if warn:
                warn(f"What lies in {path} could not be sent to MLflow: {first_line(error)}")


def _send(client: MlflowClient, run_id: str, entries: list[dict[str, Any]]) -> None:
    from mlflow.entities import Metric, RunTag

    metrics = [
        Metric(e["key"], e["value"], e["timestamp"], e["step"])
        for e in entries
        if e["kind"] == "metric"
    ]
    for start in range(0, len(metrics), BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + BATCH])
    known = client.get_run(run_id).data.params
    tags = {e["key"]: e["value"] for e in entries if e["kind"] == "tag"}
    for entry in entries:
        if entry["kind"] == "param" and entry["key"] not in known:
            client.log_param(run_id, entry["key"], entry["value"])
        elif entry["kind"] == "param" and known[entry["key"]] != entry["value"]:
            tags[f"changed.{entry['key']}"] = entry["value"]
    items = [RunTag(key, value) for key, value in tags.items()]
    for start in range(0, len(items), 100):
        client.log_batch(run_id, tags=items[start : start + 100])
    for entry in entries:
        if entry["kind"] == "status":
            client.set_terminated(run_id, entry["status"], entry["end_time"])
