"""Runs that must stay because another needs them: one that is being worked on, or an alias."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twolevers.settings import Home
from twolevers.tracking import names
from twolevers.tracking.alive import is_alive
from twolevers.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Run


def working(runs: Iterable[Run], store: Store, home: Home) -> list[Run]:
    """Those that are being worked on."""
    return [run for run in runs if run.info.status == "RUNNING" and is_alive(run, store, home)]


def read_by(runs: Iterable[Run], home: Home) -> set[str]:
    """Ids of the runs whose data or checkpoint these read: they evaluate them, repeat them, or
    start from their weights."""
    read = set()
    for run in runs:
        read |= {run.data.tags.get(tag, "") for tag in (names.EVALUATION_OF, names.RERUN_OF)}
        weights = Path(run.data.params.get("weights", "")).resolve()
        for root in (home.runs.resolve(), (home.mlflow / "artifacts").resolve()):
            if root in weights.parents:
                read.add(weights.relative_to(root).parts[0])
    return read


def with_alias(store: Store) -> set[str]:
    """Ids of the runs with a model version that an alias points to."""
    held = set()
    for model in _pages(store.client.search_registered_models):
        for version in dict(model.aliases).values():
            run_id = store.client.get_model_version(model.name, str(version)).run_id
            if run_id:
                held.add(run_id)
    return held


def _pages(search: Callable[..., Any]) -> Iterator[Any]:
    token = None
    while True:
        page = search(page_token=token)
        yield from page
        token = page.token
        if not token:
            return
