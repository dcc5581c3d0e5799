"""Runs the flow so that generation fails twice and the flow is retried; counts the core's calls.

Usage: retry_script.py DATA   Before the second retry, what tokenise wrote is removed. Prints the
calls of each stage, as they stood at each failure and at the end, and the run's id as JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import flows  # noqa: F401 - prepares the environment before Prefect is imported
import tasks.fetch
import tasks.fine_tune
import tasks.generate
import tasks.tokenise
from flows.fine_tune import fine_tune
from twolevers.options import GenerationOptions, TrainingOptions
from twolevers.records import TokenisedData

calls: Counter[str] = Counter()
seen: list[dict[str, int]] = []


def counted(module: Any, name: str, before: Callable[..., None] = lambda *_: None) -> None:
    real = getattr(module, name)

    def call(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        before(*arguments)
        return real(*arguments, **named)

    setattr(module, name, call)


def fail_twice(*arguments: Any) -> None:
    if calls["respond"] > 2:
        return
    seen.append(dict(calls))
    if calls["respond"] == 2:
        [data] = [argument for argument in arguments if isinstance(argument, TokenisedData)]
        shutil.rmtree(data.path)
    raise RuntimeError("generation fails")


counted(tasks.fetch, "fetch_dataset_file")
counted(tasks.fetch, "fetch_weights_folder")
counted(tasks.tokenise, "tokenise_dataset")
counted(tasks.fine_tune, "fine_tune")
counted(tasks.generate, "respond", fail_twice)

summary = fine_tune.with_options(retries=2)(
    dataset=sys.argv[1],
    training=TrainingOptions(epochs=1),
    generation=GenerationOptions(max_new_tokens=2),
)
print(json.dumps({"calls": [*seen, calls], "run": summary.mlflow_run_id}))
