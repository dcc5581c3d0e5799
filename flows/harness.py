"""Benchmarks of lm-evaluation-harness on a run's model, printed and tracked with the run."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from flows.ask import find_asked
from flows.terminal import console
from twolevers.device import find_device, find_precision
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, TwoleversError
from twolevers.models.weights import load_model
from twolevers.settings import load_settings
from twolevers.tracking.benchmarks import track_benchmarks
from twolevers.tracking.queries import find_run


def run_harness(
    run: str,
    tasks: list[str],
    *,
    base: bool,
    folder: Path | None,
    num_fewshot: int | None,
    limit: int | None,
    device: str,
    precision: str,
    as_json: bool,
) -> None:
    """Ask, track, print.

    Raises:
        InputError: no such run, one without a checkpoint here, no such task.
        TwoleversError: the extra is not installed; a task that cannot be run.
    """
    if find_spec("lm_eval") is None:
        raise TwoleversError(
            "lm-eval needs lm-evaluation-harness, which is not installed; install it: "
            f"{sys.executable} -m pip install 'lm-eval>=0.4.9'"
        )
    if not tasks:
        raise InputError(Problem("--tasks", None, "no task", "name one, such as hellaswag"))
    asked, on = find_asked(run, base=base), find_device(device)
    from twolevers.evaluation.harness import HarnessModel, evaluate_tasks

    model = HarnessModel(
        load_model(asked.path, asked.config, device=on.name),
        on,
        find_precision(precision, on),
        seed=asked.trained.training.seed,
    )
    found = evaluate_tasks(model, tasks, folder=folder, num_fewshot=num_fewshot, limit=limit)
    run_id = find_run(run, writable_home(), load_settings()).run_id
    if run_id:
        track_benchmarks(run_id, "base" if base else "tuned", found, limit=limit)
    if as_json:
        print(json.dumps({"model": asked.name, "limit": limit, "tasks": found}, indent=2))
        return
    of = "all entries" if limit is None else f"the first {limit} entries of each"
    console.rule(f"[bold]{escape(asked.name)}[/bold], {of}", align="left")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("task")
    table.add_column("metric")
    for name in ("value", "standard error"):
        table.add_column(name, justify="right")
    for task, metric, value, error in rows(found):
        shown = "" if error is None else f"{error:.4f}"
        table.add_row(escape(task), escape(metric), f"{value:.4f}", shown)
    console.print(table)
    if run_id:
        console.print(f"tracked in {run_id}, under lm-eval/", style="dim")


def rows(
    found: dict[str, dict[str, float]],
) -> list[tuple[str, str, float, float | None]]:
    """Task, metric, value, and its standard error where the harness gives one."""
    return [
        (task, metric, value, metrics.get(_error_of(metric)))
        for task, metrics in found.items()
        for metric, value in metrics.items()
        if "_stderr" not in metric
    ]


def _error_of(metric: str) -> str:
    """`acc_stderr` of `acc`; `em_stderr/strict` of `em/strict`."""
    name, slash, kind = metric.partition("/")
    return f"{name}_stderr{slash}{kind}"
