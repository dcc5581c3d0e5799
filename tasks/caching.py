"""When a stage's result is taken instead of computed: by a retry of the same flow run, only.

(Across flow runs the core itself keeps what was fetched and tokenised, by content hash.)
Prefect's own `TASK_SOURCE` would hash a task's few lines and not see a change in the core, so
the key is made here: flow run, stage, inputs, core version.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect.context import TaskRunContext
from prefect.settings import PREFECT_LOCAL_STORAGE_PATH
from pydantic_core import to_jsonable_python

from twolevers import __version__
from twolevers.files import hash_of


def stage_key(stage: str) -> Callable[[TaskRunContext, dict[str, Any]], str]:
    """The cache key of a stage. A kept result whose files have vanished is forgotten first."""

    def key(context: TaskRunContext, parameters: dict[str, Any]) -> str:
        inputs = to_jsonable_python(parameters)
        flow_run = str(context.task_run.flow_run_id)
        found = f"{stage}-{hash_of([__version__, flow_run, inputs])[:32]}"
        _forget_if_vanished(PREFECT_LOCAL_STORAGE_PATH.value() / found)
        return found

    return key


def stage(name: str) -> dict[str, Any]:
    """Keyword arguments every stage's task shares."""
    return {
        "name": name,
        "cache_key_fn": stage_key(name.replace(" ", "-")),
        "persist_result": True,
        "result_serializer": "json",
    }


def _forget_if_vanished(result: Path) -> None:
    """Remove a kept result that names a path no longer there: the stage then runs again."""
    if not result.is_file():
        return
    record = json.loads(json.loads(result.read_text(encoding="utf-8"))["result"])
    if not all(path.exists() for path in _paths(record)):
        result.unlink(missing_ok=True)


def _paths(value: Any) -> list[Path]:
    if isinstance(value, dict):
        return [path for inner in value.values() for path in _paths(inner)]
    if isinstance(value, list):
        return [path for inner in value for path in _paths(inner)]
    return [Path(value)] if isinstance(value, str) and Path(value).is_absolute() else []
