"""Removing what no longer serves: old runs with their checkpoints, remains, caches.

First a plan that can be shown, then the removal. A run that is being worked on stays, and so does
one that such a run reads from, and one of whose model versions holds an alias. Nothing outside
the home is touched.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from twolevers.settings import Home, Settings
from twolevers.tracking import artifacts, names
from twolevers.tracking.alive import is_alive
from twolevers.tracking.in_use import read_by, with_alias, working
from twolevers.tracking.store import Store, open_store
from twolevers.tracking.traces import answers_of, delete_answers

if TYPE_CHECKING:
    from mlflow.entities import Run

DAY = 86_400.0


@dataclass(frozen=True)
class CleanItem:
    """One thing to remove."""

    kind: Literal["run", "folder", "cache"]
    path: Path
    """The run's folder, the folder or the file."""
    bytes: int
    """What removing it sets free; files with several links count where all links go."""
    reason: str
    run_id: str | None = None


@dataclass(frozen=True)
class CleanPlan:
    """What would be removed, and from where."""

    items: tuple[CleanItem, ...]
    home: Home
    settings: Settings

    @property
    def bytes(self) -> int:
        """All that it sets free."""
        return sum(item.bytes for item in self.items)


def plan_clean(
    home: Home, settings: Settings, *, older_than_days: float | None, keep_last: int
) -> CleanPlan:
    """What can go.

    Args:
        older_than_days: only what was last used before that; None: however old.
        keep_last: so many of the newest runs of each kind stay whatever their age: a few quick
            evaluations are not to push out the fine-tunings that they are of.
    """
    store = open_store(home, settings)
    before = time.time() - (older_than_days or 0) * DAY
    items = []
    active = _runs(store, deleted=False)
    ids = {run.info.run_id for run in active}
    at_work = working(active, store, home)
    held = with_alias(store) | read_by(at_work, home)
    newer: Counter[str] = Counter()
    for run in active:
        run_id, kind = run.info.run_id, run.data.tags.get(names.KIND, "")
        if kind == names.ANSWERS and run.data.tags.get(names.EVALUATION_OF) in ids:
            continue  # they go with the run that they are of
        newer[kind] += 1
        is_kept = newer[kind] <= keep_last or run_id in held
        if is_kept or not _may_go(run, store, home, before):
            continue
        items.append(_run_item(run, home, _how_old(run)))
    for run in _runs(store, deleted=True):
        if run.info.run_id not in held and _may_go(run, store, home, before):
            items.append(_run_item(run, home, "deleted in MLflow"))
    known = ids | {run.info.run_id for run in _runs(store, deleted=True)}
    items += _remains(home, known, before, store)
    if not at_work:
        items += _caches(home, before)
    return CleanPlan(tuple(items), home, settings)


def clean(plan: CleanPlan, warn: Callable[[str], None] | None = None) -> int:
    """Remove what the plan names, but what came into use since then; bytes set free."""
    home = plan.home
    store = open_store(home, plan.settings)
    at_work = working(_runs(store, deleted=False), store, home)
    held = with_alias(store) | read_by(at_work, home)
    freed = 0
    for item in plan.items:
        try:
            if item.kind == "cache" and at_work:
                continue
            if item.run_id:
                run = store.client.get_run(item.run_id)
                in_use = run.info.status == "RUNNING" and is_alive(run, store, home)
                if in_use or item.run_id in held:
                    continue
                _remove_run(run, store, home)
            else:
                _remove(item.path, home)
            freed += item.bytes
        except Exception as error:  # the rest can still go
            if warn:
                warn(f"{item.path} could not be removed: {error}")
    return freed


def _runs(store: Store, *, deleted: bool) -> list[Run]:
    """All runs of the experiment, the newest first."""
    from mlflow.entities import ViewType

    view = ViewType.DELETED_ONLY if deleted else ViewType.ACTIVE_ONLY
    found: list[Run] = []
    token = None
    while True:
        page = store.client.search_runs(
            [store.experiment_id],
            run_view_type=view,
            max_results=1000,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
        found += page
        token = page.token
        if not token:
            return found


def _may_go(run: Run, store: Store, home: Home, before: float) -> bool:
    if run.info.status == "RUNNING" and is_alive(run, store, home):
        return False
    ended = run.info.end_time or run.info.start_time
    folder = home.run_folder(run.info.run_id)
    return ended / 1000 <= before and (not folder.exists() or _inside(folder, home))


def _how_old(run: Run) -> str:
    days = (time.time() - run.info.start_time / 1000) / DAY
    return f"{run.info.run_name}, {run.info.status}, {days:.1f} days old"


def _run_item(run: Run, home: Home, reason: str) -> CleanItem:
    folder = home.run_folder(run.info.run_id)
    places = [folder]
    if stored := _artifact_folder(run, home):
        places.append(stored)
    return CleanItem("run", folder, _size(places), reason, run.info.run_id)


def _artifact_folder(run: Run, home: Home) -> Path | None:
    """`<artifacts>/<run id>` where that lies in this home."""
    path = artifacts.local_path(run.info.artifact_uri)
    if path is None or path.name != "artifacts" or path.parent.name != run.info.run_id:
        return None
    return path.parent if _inside(path.parent, home) else None


def _remains(home: Home, known: set[str], before: float, store: Store) -> Iterator[CleanItem]:
    """Folders of runs that the store no longer has. Only where the store is the home's own: on a
    server a run may belong to another experiment."""
    if not store.local:
        return
    for root in (home.runs, home.mlflow / "artifacts"):
        for folder in sorted(root.iterdir()) if root.is_dir() else []:
            is_run = len(folder.name) == 32 and folder.name.isalnum()
            if not is_run or folder.name in known or _exists(store, folder.name):
                continue
            if folder.lstat().st_mtime <= before and _inside(folder, home):
                yield CleanItem("folder", folder, _size([folder]), "its run is gone")


def _exists(store: Store, run_id: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        store.client.get_run(run_id)
    except MlflowException:
        return False
    return True


def _caches(home: Home, before: float) -> Iterator[CleanItem]:
    """Entries of the cache, one a fetched or tokenised thing, by when they were last used."""
    # Only what is ours: where the home is the user's, other programs' caches lie there too.
    for room in (home.cache / name for name in ("data", "hub", "tokenised", "hashes")):
        if not room.exists():
            continue
        entries = sorted(room.iterdir()) if room.is_dir() and not room.is_symlink() else [room]
        for entry in entries:
            status = entry.lstat()
            if max(status.st_mtime, status.st_atime) <= before and _inside(entry, home):
                yield CleanItem("cache", entry, _size([entry]), "fetched or made again when needed")


def _remove_run(run: Run, store: Store, home: Home) -> None:
    """The run, its versions, models and answers in MLflow, its artifacts and its folder."""
    client, run_id = store.client, run.info.run_id
    for answers in answers_of(client, run.info.experiment_id, run_id):
        _remove_run(answers, store, home)
    delete_answers(client, run.info.experiment_id, run_id)
    versions = client.search_model_versions(f"run_id = '{run_id}'", max_results=1000)
    for version in versions:
        client.delete_model_version(version.name, version.version)
    models = client.search_logged_models(
        [run.info.experiment_id], f"source_run_id = '{run_id}'", max_results=50
    )
    for model in models:
        client.delete_logged_model(model.model_id)
        own = artifacts.local_path(model.artifact_location)
        if store.local and own and own.parent.name == model.model_id:
            _remove(own.parent, home)  # a link to the run's checkpoint
    if run.info.lifecycle_stage != "deleted":
        client.delete_run(run_id)
    if store.local:
        _forget_run(store, run_id)
        if stored := _artifact_folder(run, home):
            _remove(stored, home)
    _remove(home.run_folder(run_id), home)


def _forget_run(store: Store, run_id: str) -> None:
    """What `mlflow gc` does: without it a deleted run's metrics stay in the database for good."""
    store.client._tracking_client.store._hard_delete_run(run_id)


def _inside(path: Path, home: Home) -> bool:
    """Whether removing `path` removes nothing outside the home: links are not followed."""
    place = path.parent.resolve() / path.name
    return home.root.resolve() in place.parents


def _remove(path: Path, home: Home) -> None:
    if not _inside(path, home):
        raise OSError("it lies outside the home")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)  # links in it are removed, not what they lead to
    else:
        path.unlink(missing_ok=True)


def _size(places: list[Path]) -> int:
    """Bytes that go when all these go."""
    links: Counter[tuple[int, int]] = Counter()
    known: dict[tuple[int, int], os.stat_result] = {}
    for place in places:
        files = [place, *place.rglob("*")] if place.is_dir() and not place.is_symlink() else [place]
        for file in files:
            if not file.is_symlink() and file.is_file():
                status = file.stat()
                links[status.st_dev, status.st_ino] += 1
                known[status.st_dev, status.st_ino] = status
    return sum(status.st_size for key, status in known.items() if links[key] >= status.st_nlink)
