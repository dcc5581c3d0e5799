"""Finding runs: what RUN means, the list of runs, a run's summary. No Prefect is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twolevers.errors import InputError, Problem
from twolevers.files import read_json
from twolevers.settings import Home, Settings, load_settings
from twolevers.tracking import names
from twolevers.tracking.alive import close_orphans_in, killed_runs
from twolevers.tracking.lookup import (
    SHORTEST_PREFIX,
    all_runs,
    by_flow_run,
    find_by_folder,
    find_by_id,
    kind_filter,
)
from twolevers.tracking.run_info import RunInfo, run_info
from twolevers.tracking.store import Store, open_store

if TYPE_CHECKING:
    import pandas as pd

LATEST = "latest"
COLUMNS = (
    "run_id",
    "kind",
    "name",
    "status",
    "model",
    "device",
    "precision",
    "started",
    "two_epoch_seconds",
    "val_loss_base",
    "val_loss_tuned",
    "exact_match_base",
    "exact_match_tuned",
    "test_accuracy",
    "evaluation_of",
    "fingerprint",
    "prefect_flow_run_id",
    "checkpoint",
)


def find_run(run: str, home: Home, settings: Settings, *, kind: str = names.FINE_TUNE) -> RunInfo:
    """The run that `run` means: an MLflow or Prefect id, a unique prefix of either (at least 4
    characters), a checkpoint folder, or `latest`: the newest of `kind`.

    Raises:
        InputError: nothing is meant by it, or more than one run; names those it could be.
    """
    wanted = run.strip()
    store = _store_as_it_is(home, settings)
    if wanted.lower() == LATEST:
        newest = next(all_runs(store, kind_filter(kind), pages_of=1), None)
        if newest is None:
            raise _none_yet(run, kind)
        return run_info(newest, home)
    looks_like_path = wanted.startswith((".", "~", "/")) or "/" in wanted or "\\" in wanted
    if not looks_like_path and (found := find_by_id(wanted, store)):
        return run_info(found, home)
    try:
        folder = Path(wanted).expanduser()
        exists = bool(wanted) and folder.exists()
    except (RuntimeError, OSError, ValueError):  # ~nobody, a name too long for a file
        exists = False
    if exists:
        return find_by_folder(folder, home, store)
    if looks_like_path:
        raise InputError(
            Problem("run", run, "there is no such folder", "see the runs there are: twolevers runs")
        )
    if not any(next(all_runs(store, kind_filter(k), pages_of=1), None) for k in names.LISTED):
        raise _none_yet(run, kind)
    what = "no run has this id, and there is no such folder"
    if len(wanted) < SHORTEST_PREFIX:
        what = f"is too short: a prefix has at least {SHORTEST_PREFIX} characters"
    raise InputError(Problem("run", run, what, "see the runs there are: twolevers runs"))


def find_flow_run(flow_run_id: str, home: Home, settings: Settings) -> str | None:
    """Id of the MLflow run that a Prefect flow run worked on, None where there is none."""
    store = open_store(home, settings)
    found = by_flow_run(store, flow_run_id.lower())
    return str(found[0].info.run_id) if found else None


def finished_runs(
    home: Home,
    settings: Settings,
    *,
    model: str | None = None,
    fingerprint: str | None = None,
    kind: str = names.FINE_TUNE,
) -> Iterator[RunInfo]:
    """Runs of a kind (fine-tunings) that went through all their stages, the newest first.

    Args:
        model: of this model alone, by its full name.
        fingerprint: of this workload alone.
    """
    store = open_store(home, settings)
    condition = f"{kind_filter(kind)} AND attributes.status = 'FINISHED'"
    if model:
        condition += f" AND params.model = '{model}'"
    if fingerprint:
        condition += f" AND tags.`{names.FINGERPRINT}` = '{fingerprint}'"
    for run in all_runs(store, condition, pages_of=20):
        yield run_info(run, home)


def list_runs(
    home: Home,
    settings: Settings,
    limit: int | None = None,
    *,
    kinds: Sequence[str] = (names.FINE_TUNE,),
) -> pd.DataFrame:
    """Runs of some kinds (fine-tunings) that were not deleted, the newest first; what is not known
    or what a kind has not is missing.

    Columns as `COLUMNS`; `started` is in UTC, times in seconds, scores fractions from 0 to 1.
    """
    import pandas as pd

    store = _store_as_it_is(home, settings)
    page = min(limit or 1000, 1000)
    # One search a kind: MLflow's language has no "or".
    found = [all_runs(store, kind_filter(kind), pages_of=page) for kind in kinds]
    newest = merge(*found, key=lambda run: -run.info.start_time)
    rows = [_row(run_info(run, home)) for run in islice(newest, limit)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    prefixes = ("two_", "val_", "exact_", "test_")
    numbers = [name for name in COLUMNS if name.startswith(prefixes)]
    table[numbers] = table[numbers].astype("float64")
    return table


def _row(info: RunInfo) -> dict[str, object]:
    return {
        "run_id": info.run_id,
        "kind": info.kind,
        "name": info.name,
        "status": info.status,
        "model": info.model,
        "device": info.device,
        "precision": info.precision,
        "started": info.started,
        "two_epoch_seconds": info.metrics.get("two_epoch_seconds"),
        **{
            f"{score}_{role}": info.metrics.get(names.score_metric(role, score))
            for score in ("val_loss", "exact_match")
            for role in names.ROLES
        },
        "test_accuracy": info.metrics.get(names.TEST_ACCURACY),
        "evaluation_of": info.tags.get(names.EVALUATION_OF),
        "fingerprint": info.fingerprint,
        "prefect_flow_run_id": info.prefect_flow_run_id,
        "checkpoint": str(info.checkpoint) if info.checkpoint else None,
    }


def empty_summary(info: RunInfo) -> dict[str, Any]:
    """A run's summary from what was tracked so far; what is not known is None."""
    summary: dict[str, Any] = dict.fromkeys(names.SUMMARY_KEYS)
    summary |= {key: info.metrics.get(key) for key in names.FIGURES}
    if summary["peak_memory_bytes"] is not None:
        summary["peak_memory_bytes"] = int(summary["peak_memory_bytes"])
    for role in names.ROLES:
        summary[role] = {
            score: info.metrics.get(names.score_metric(role, score)) for score in names.SCORES
        }
    if info.kind == names.CLASSIFY:  # it has no such models, and all its epochs are timed
        summary = {key: summary[key] for key in summary if key not in names.FINE_TUNE_KEYS}
        summary["scores"] = None
    return summary | {
        "model": info.model,
        "device": info.device,
        "precision": info.precision,
        "mlflow_run_id": info.run_id,
        "prefect_flow_run_id": info.prefect_flow_run_id,
        "fingerprint": info.fingerprint,
        "checkpoint": str(info.checkpoint) if info.checkpoint else None,
        "status": info.status or None,
    }


def read_summary(info: RunInfo) -> dict[str, Any]:
    """The summary that the run wrote, its status as it is now; partial while unfinished."""
    summary = empty_summary(info)
    written = read_written(info, names.SUMMARY_FILE)
    # Where the run's checkpoint lies may have changed since, what it came to not.
    here = {key: summary[key] for key in ("status", "checkpoint") if summary[key]}
    return summary | written | here


def read_written(info: RunInfo, name: str) -> dict[str, Any]:
    """A JSON object that the run wrote, from its folder, its artifacts or a server's; empty where
    it has not come so far. A checkpoint named in it is this machine's, or None."""
    return _written_here(info, name) or _written_elsewhere(info, name)


def _written_here(info: RunInfo, name: str) -> dict[str, Any]:
    for folder in (info.folder, info.artifacts):
        file = folder / name if folder else None
        if file and file.is_file() and (written := _read_object(file)):
            return written
    return {}


def _written_elsewhere(info: RunInfo, name: str) -> dict[str, Any]:
    """As the server keeps it that took the artifacts; its checkpoint is not on this machine."""
    settings = load_settings()
    if info.run_id is None or info.artifacts or not settings.tracking_uri:
        return {}
    from mlflow.exceptions import MlflowException

    client = open_store(Home(), settings).client
    with tempfile.TemporaryDirectory() as folder:
        try:
            file = client.download_artifacts(info.run_id, name, folder)
        except (MlflowException, OSError):  # a run that has not come so far
            return {}
        written = _read_object(Path(file))
    return {**written, "checkpoint": None} if "checkpoint" in written else written


def _read_object(file: Path) -> dict[str, Any]:
    try:
        written = read_json(file)
    except ValueError:
        return {}
    return written if isinstance(written, dict) else {}


def _store_as_it_is(home: Home, settings: Settings) -> Store:
    """The store, in which nothing that a kill left is RUNNING any more."""
    store = open_store(home, settings)
    if killed_runs(home):
        with suppress(Exception):  # then they are closed later: whoever only looks is not held up
            close_orphans_in(store, home)
    return store


def _none_yet(run: str, kind: str) -> InputError:
    start = f"start one: {names.STARTED_BY[kind]}"
    what = "there is no run yet" if kind == names.FINE_TUNE else f"there is no {kind} run yet"
    return InputError(Problem("run", run, what, start))
