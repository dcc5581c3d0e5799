"""`twolevers estimate`: what a run would need, without running it."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import import_module
from typing import Any

from rich.markup import escape

from flows.launch import IMPORTED_LATE
from flows.terminal import console
from flows.views import grid
from twolevers.data.fetch import fetch_dataset
from twolevers.data.tokenise import tokenise
from twolevers.device import Device, find_device
from twolevers.environment import writable_home
from twolevers.errors import InputError
from twolevers.estimate import Estimate, estimate
from twolevers.options import DEVICES, FROM_SETTINGS, FineTuneOptions
from twolevers.plan import make_plan, options_from
from twolevers.progress import Silent
from twolevers.settings import load_settings
from twolevers.slots import device_slot


def print_estimate(given: dict[str, Any], seconds: float, as_json: bool) -> None:
    """Parameters, memory, tokens, steps and time of the run that `given` would start.

    Args:
        given: options as on the command line.
        seconds: longest time to measure steps.

    Raises:
        InputError: an option that cannot be used. A device that is not here can be asked about.
    """
    home = writable_home()
    options, device = _planned(options_from(given, load_settings()))
    dataset = fetch_dataset(options.dataset, home, Silent())
    data = tokenise(dataset, options.data, seed=options.training.seed, home=home, progress=Silent())
    # A run's process holds these too; its memory is counted from there.
    for module in ("mlflow.store.tracking.sqlalchemy_store", *IMPORTED_LATE):
        import_module(module)
    if device is None:
        found = estimate(options, None, data, seconds=0)
    else:
        with device_slot(device, "an estimate", console.print):
            found = estimate(options, device, data, seconds=seconds)
    if as_json:
        print(json.dumps(_as_json(found), indent=2, ensure_ascii=False))
        return
    _print(found, options)


def _planned(options: FineTuneOptions) -> tuple[FineTuneOptions, Device | None]:
    """Resolved options and their device; None where it is another machine's.

    There `auto` cannot be resolved either: float32 is taken, in which most is held.
    """
    try:
        plan = make_plan(options, load_settings())
        return plan.options, plan.device
    except InputError:
        asked = load_settings().choose_device if options.device == FROM_SETTINGS else options.device
        if asked not in DEVICES or _is_here(asked):
            raise
        plan = make_plan(options.model_copy(update={"device": "cpu"}), load_settings())
        precision = "float32" if options.precision == "auto" else options.precision
        return plan.options.model_copy(update={"device": asked, "precision": precision}), None


def _is_here(device: str) -> bool:
    try:
        find_device(device)
    except InputError:
        return False
    return True


def _print(found: Estimate, options: FineTuneOptions) -> None:
    memory, time = found.memory, found.time
    console.rule(f"[bold]{found.model}[/bold] on {escape(found.device)}", align="left")
    rows = {
        "data set": f"{options.dataset}, {found.epochs} epoch{'s' * (found.epochs != 1)}",
        "parameters": f"{found.parameters:,}",
        "steps": f"{found.steps:,}, {found.tokens:,} tokens",
        "precision": found.precision,
        "memory": f"about {memory}",
        "training": str(time or found.no_time),
    }
    console.print(grid(rows))
    if found.too_large:
        console.print(f"[bold]It does not fit.[/bold] {escape(str(found.too_large))}")


def _as_json(found: Estimate) -> dict[str, Any]:
    return {
        **{
            name: value
            for name, value in asdict(found).items()
            if name not in ("memory", "too_large")
        },
        "memory_bytes": {**asdict(found.memory), "total": found.memory.total},
        "fits": found.too_large is None,
    }
