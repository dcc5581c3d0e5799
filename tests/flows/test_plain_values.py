"""What goes between stages is plain: small records that travel as JSON, never an object."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from prefect import Task
from pydantic import TypeAdapter

import tasks


def all_tasks() -> Iterator[Task[..., Any]]:
    for module in pkgutil.iter_modules(tasks.__path__, "tasks."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Task):
                yield value


TASKS = {task.name: task for task in all_tasks()}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_takes_and_gives_plain_values(task: Task[..., Any]) -> None:
    hints = get_type_hints(task.fn)
    assert "return" in hints
    for name, hint in hints.items():
        assert TypeAdapter(hint).json_schema() is not None, f"{task.name}: {name}"
