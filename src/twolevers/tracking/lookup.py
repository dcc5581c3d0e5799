"""Looking runs up in the store: by id, by the beginning of one, by a folder of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from twolevers.errors import InputError, Problem
from twolevers.settings import Home
from twolevers.tracking import names
from twolevers.tracking.run_info import RunInfo, moment, run_info
from twolevers.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Run

SHORTEST_PREFIX = 4


def kind_filter(kind: str) -> str:
    """The condition that finds runs of a kind."""
    return f"tags.`{names.KIND}` = '{kind}'"


def all_runs(
    store: Store, condition: str, *, pages_of: int = 1000, deleted: bool = False
) -> Iterator[Run]:
    """Runs of the experiment that were not deleted, or those that were; the newest first."""
    from mlflow.entities import ViewType

    token = None
    while True:
        page = store.client.search_runs(
            [store.experiment_id],
            condition,
            run_view_type=ViewType.DELETED_ONLY if deleted else ViewType.ACTIVE_ONLY,
            max_results=max(pages_of, 1),
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return


def find_by_id(wanted: str, store: Store) -> Run | None:
    """By whole id or prefix; None when there is none.

    Raises:
        InputError: more than one run begins like that, or only such as were deleted.
    """
    text = wanted.lower()
    # Ids hold these alone; anything else would change the meaning of the search.
    if len(text) < SHORTEST_PREFIX or not all(sign.isalnum() or sign == "-" for sign in text):
        return None
    found = {run.info.run_id: run for run in by_flow_run(store, text)}
    condition = f"attributes.run_id LIKE '{text}%'"
    found |= {run.info.run_id: run for run in all_runs(store, condition)}
    if text in found:
        return found[text]
    if not found:
        deleted = [*all_runs(store, condition, deleted=True), *by_flow_run(store, text, True)]
        if deleted:
            raise _deleted(wanted, deleted[0])
    if len(found) <= 1:
        return next(iter(found.values()), None)
    candidates = ", ".join(
        f"{run_id} ({run.info.run_name}, {moment(run.info.start_time):%Y-%m-%d %H:%M} UTC)"
        for run_id, run in list(found.items())[:10]
    )
    raise InputError(
        Problem("run", wanted, f"means {len(found)} runs", f"choose one of {candidates}")
    )


def by_flow_run(store: Store, text: str, deleted: bool = False) -> list[Run]:
    """Runs that a Prefect flow run worked on whose id begins with `text`, the newest first."""
    condition = f"tags.`{names.PREFECT_FLOW_RUN_ID}` LIKE '%{text}%'"
    return [
        run
        for run in all_runs(store, condition, deleted=deleted)
        if any(
            flow_run_id.startswith(text)
            for flow_run_id in run.data.tags[names.PREFECT_FLOW_RUN_ID].split(",")
        )
    ]


def find_by_folder(folder: Path, home: Home, store: Store) -> RunInfo:
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
        if run.info.lifecycle_stage == "deleted":
            raise _deleted(str(folder), run)
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


def _deleted(wanted: str, run: Run) -> InputError:
    what = f"means {run.info.run_id} ({run.info.run_name}), which was deleted in MLflow"
    return InputError(
        Problem("run", wanted, what, "restore it there, or choose from: twolevers runs")
    )
