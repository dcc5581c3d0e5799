"""Finding runs: what RUN means, the list of runs, a run's summary. No Prefect is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twolevers.errors import InputError, Problem
from twolevers.files import read_json
from twolevers.settings import Home, Settings, load_settings
from twolevers.tracking import names
from twolevers.tracking.run_info import RunInfo, moment, run_info
from twolevers.tracking.store import Store, open_store

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Run

LATEST = "latest"
SHORTEST_PREFIX = 4
COLUMNS = (
    "run_id",
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
    store = open_store(home, settings)
    if wanted.lower() == LATEST:
        newest = next(_all_runs(store, _kind_filter(kind), pages_of=1), None)
        if newest is None:
            raise _none_yet(run, kind)
        return run_info(newest, home)
    looks_like_path = wanted.startswith((".", "~", "/")) or "/" in wanted or "\\" in wanted
    if not looks_like_path and (found := _find_by_id(wanted, store)):
        return run_info(found, home)
    try:
        folder = Path(wanted).expanduser()
        exists = bool(wanted) and folder.exists()
    except (RuntimeError, OSError, ValueError):  # ~nobody, a name too long for a file
        exists = False
    if exists:
        return _find_by_folder(folder, home, store)
    if looks_like_path:
        raise InputError(
            Problem("run", run, "there is no such folder", "see the runs there are: twolevers runs")
        )
    if next(_all_runs(store, _kind_filter(kind), pages_of=1), None) is None:
        raise _none_yet(run, kind)
    what = "no run has this id, and there is no such folder"
    if len(wanted) < SHORTEST_PREFIX:
        what = f"is too short: a prefix has at least {SHORTEST_PREFIX} characters"
    raise InputError(Problem("run", run, what, "see the runs there are: twolevers runs"))


def find_flow_run(flow_run_id: str, home: Home, settings: Settings) -> str | None:
    """Id of the MLflow run that a Prefect flow run worked on, None where there is none."""
    store = open_store(home, settings)
    found = _by_flow_run(store, flow_run_id.lower())
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
    condition = f"{_kind_filter(kind)} AND attributes.status = 'FINISHED'"
    if model:
        condition += f" AND params.model = '{model}'"
    if fingerprint:
        condition += f" AND tags.`{names.FINGERPRINT}` = '{fingerprint}'"
    for run in _all_runs(store, condition, pages_of=20):
        yield run_info(run, home)


def list_runs(home: Home, settings: Settings, limit: int | None = None) -> pd.DataFrame:
    """Fine-tunings that were not deleted, the newest first; what is not known is missing.

    Columns as `COLUMNS`; `started` is in UTC, times in seconds, scores fractions from 0 to 1.
    """
    import pandas as pd

    store = open_store(home, settings)
    rows: list[dict[str, object]] = []
    for run in _all_runs(store, _kind_filter(), pages_of=min(limit or 1000, 1000)):
        if limit is not None and len(rows) >= limit:
            break
        info = run_info(run, home)
        rows.append(
            {
                "run_id": info.run_id,
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
                "fingerprint": info.fingerprint,
                "prefect_flow_run_id": info.prefect_flow_run_id,
                "checkpoint": str(info.checkpoint) if info.checkpoint else None,
            }
        )
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    numbers = [name for name in COLUMNS if name.startswith(("two_", "val_", "exact_"))]
    table[numbers] = table[numbers].astype("float64")
    return table


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
    written = _written_here(info) or _written_elsewhere(info)
    # Where the run's checkpoint lies may have changed since, what it came to not.
    here = {key: summary[key] for key in ("status", "checkpoint") if summary[key]}
    return summary | written | here


def _written_here(info: RunInfo) -> dict[str, Any]:
    for folder in (info.folder, info.artifacts):
        file = folder / names.SUMMARY_FILE if folder else None
        if file and file.is_file() and (written := _read_object(file)):
            return written
    return {}


def _written_elsewhere(info: RunInfo) -> dict[str, Any]:
    """As the server keeps it that took the artifacts; its checkpoint is not on this machine."""
    settings = load_settings()
    if info.run_id is None or info.artifacts or not settings.tracking_uri:
        return {}
    from mlflow.exceptions import MlflowException

    client = open_store(Home(), settings).client
    with tempfile.TemporaryDirectory() as folder:
        try:
            file = client.download_artifacts(info.run_id, names.SUMMARY_FILE, folder)
        except (MlflowException, OSError):  # a run that has not come so far
            return {}
        written = _read_object(Path(file))
    return {**written, "checkpoint": None} if written else {}


def _read_object(file: Path) -> dict[str, Any]:
    try:
        written = read_json(file)
    except ValueError:
        return {}
    return written if isinstance(written, dict) else {}


def _kind_filter(kind: str = names.FINE_TUNE) -> str:
    return f"tags.`{names.KIND}` = '{kind}'"


def _all_runs(store: Store, condition: str, *, pages_of: int = 1000) -> Iterator[Run]:
    """Active runs of the experiment, the newest first."""
    token = None
    while True:
        page = store.client.search_runs(
            [store.experiment_id],
            condition,
            max_results=max(pages_of, 1),
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return


def _find_by_id(wanted: str, store: Store) -> Run | None:
    """By whole id or prefix; None when there is none.

    Raises:
        InputError: more than one run begins like that.
    """
    text = wanted.lower()
    # Ids hold these alone; anything else would change the meaning of the search.
    if len(text) < SHORTEST_PREFIX or not all(sign.isalnum() or sign == "-" for sign in text):
        return None
    found = {run.info.run_id: run for run in _by_flow_run(store, text)}
    condition = f"attributes.run_id LIKE '{text}%'"
    found |= {run.info.run_id: run for run in _all_runs(store, condition)}
    if text in found:
        return found[text]
    if len(found) <= 1:
        return next(iter(found.values()), None)
    candidates = ", ".join(
        f"{run_id} ({run.info.run_name}, {moment(run.info.start_time):%Y-%m-%d %H:%M})"
        for run_id, run in list(found.items())[:10]
    )
    raise InputError(
        Problem("run", wanted, f"means {len(found)} runs", f"choose one of {candidates}")
    )


def _by_flow_run(store: Store, text: str) -> list[Run]:
    condition = f"tags.`{names.PREFECT_FLOW_RUN_ID}` LIKE '%{text}%'"
    return [
        run
        for run in _all_runs(store, condition)
        if any(
            flow_run_id.startswith(text)
            for flow_run_id in run.data.tags[names.PREFECT_FLOW_RUN_ID].split(",")
        )
    ]


def _find_by_folder(folder: Path, home: Home, store: Store) -> RunInfo:
    """The run whose folder or artifacts hold `folder`; without a run, the checkpoint alone."""
    from mlflow.exceptions import MlflowException

    place = folder.resolve()
    is_checkpoint = (place / "config.json").is_file()
    for root in (home.runs.resolve(), (home.mlflow / "artifacts").resolve()):
        if root not in place.parents:
            continue
        try:
            run = store.client.get_run(place.relative_to(root).parts[0])
        except MlflowException:
            continue
        info = run_info(run, home)
        return replace(info, checkpoint=place) if is_checkpoint else info
    if is_checkpoint:
        return RunInfo(run_id=None, name=place.name, checkpoint=place)
    raise InputError(
        Problem(
            "run",
            str(folder),
            "is no checkpoint folder (it has no config.json)",
            "give a folder in the Hugging Face layout, or a run id: twolevers runs",
        )
    )


def _none_yet(run: str, kind: str) -> InputError:
    start = "twolevers fine-tune, or make run" if kind == names.FINE_TUNE else f"twolevers {kind}"
    return InputError(Problem("run", run, "there is no run yet", f"start one: {start}"))
