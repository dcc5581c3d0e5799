"""What there is: models, devices, data sets, runs. A table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.terminal import console
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem
from twolevers.report.texts import seconds_text
from twolevers.settings import load_settings
from twolevers.tracking.run_info import RunInfo

FIXED = (
    "model",
    "name",
    "device",
    "run_id",
    "chosen",
    "status",
    "started",
    "2 epochs",
    "val loss",
    "match",
)
"""Columns that never break; the others give way in a narrow terminal."""


def models(as_json: bool) -> None:
    from twolevers.models.catalog import MODELS, find_model

    chosen = find_model(load_settings().choose_model).name
    rows = [
        {
            "name": entry.name,
            "chosen": entry.name == chosen,
            "parameters": entry.config.num_parameters,
            "layers": entry.config.num_layers,
            "width": entry.config.emb_dim,
            "heads": entry.config.num_heads,
            "weights": f"hub:{entry.repo}@{entry.revision}" if entry.repo else "shipped",
            "about": entry.description,
        }
        for entry in MODELS.values()
    ]
    _show(rows if as_json else _without(rows, "layers", "width", "heads", "weights"), as_json)


def devices(as_json: bool) -> None:
    from twolevers.device import available_devices, find_device, find_precision

    chosen = load_settings().choose_device
    here = available_devices()
    try:
        default = find_device(chosen).name
    except Exception:  # the settings may name a device of another machine
        default = ""
    _show(
        [
            {
                "device": device.name,
                "chosen": device.name == default,
                "hardware": device.hardware,
                "threads": device.threads if device.kind == "cpu" else None,
                "memory_bytes": device.memory_bytes,
                "auto_precision": find_precision("auto", device),
            }
            for device in here
        ],
        as_json,
    )


def datasets(as_json: bool) -> None:
    from twolevers.data.catalog import DATASETS

    _show(
        [
            {
                "name": entry.name,
                "entries": entry.num_entries,
                "licence": entry.licence,
                "source": str(entry.source) if entry.sha256 else "shipped",
                "about": entry.description,
            }
            for entry in DATASETS.values()
        ],
        as_json,
    )


def runs(as_json: bool, limit: int) -> None:
    from twolevers.tracking.queries import list_runs

    frame = list_runs(writable_home(), load_settings(), limit)
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    if not rows and not as_json:
        console.print("No run yet. Start one with `twolevers fine-tune`.")
        return
    if as_json:
        _show(rows, True)
        return
    _show([_in_short(row) for row in rows], False)


def _in_short(row: dict[str, Any]) -> dict[str, Any]:
    """A run on one line of a terminal."""
    return {
        "run_id": str(row["run_id"])[:8],
        "model": str(row["model"]).split(" ")[0],
        "device": row["device"],
        "status": row["status"],
        "started": str(row["started"])[5:16].replace("T", " "),
        "2 epochs": seconds_text(row["two_epoch_seconds"]),
        "val loss": row["val_loss_tuned"],
        "match": row["exact_match_tuned"],
    }


def show(run: str, as_json: bool, published: bool = False) -> None:
    from twolevers.tracking.queries import find_run, read_summary

    home = writable_home()
    found = find_run(run, home, load_settings())
    if found.run_id is None:
        raise InputError(
            Problem(
                "run", run, "is a checkpoint of no run", "see the runs there are: twolevers runs"
            )
        )
    summary = read_summary(found)
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    if "scores" in summary:
        from flows.classify_command import print_classification

        print_classification(summary)
        return
    from flows.views import print_summary

    print_summary(summary, home)
    if published:
        _show_published(found, summary)


def _show_published(found: RunInfo, summary: dict[str, Any]) -> None:
    from twolevers.published import SOURCE, check_losses
    from twolevers.tracking.runs import read_run_options

    assert found.folder is not None
    console.print(f"\n[bold]published losses[/bold] ({SOURCE})")
    for check in check_losses(summary, read_run_options(found.folder), found.tags):
        console.print(f"  {escape(str(check))}")


def clean(older_than: float, keep: int, yes: bool) -> None:
    from twolevers.tracking.clean import clean as remove
    from twolevers.tracking.clean import plan_clean

    plan = plan_clean(writable_home(), load_settings(), older_than_days=older_than, keep_last=keep)
    if not plan.items:
        console.print("Nothing to remove.")
        return
    _show(
        [
            {"what": str(item.path), "MB": f"{item.bytes / 1e6:,.1f}", "why": item.reason}
            for item in plan.items
        ],
        False,
    )
    total = plan.bytes / 1e6
    if yes:
        freed = remove(plan, warn=console.print) / 1e6
        console.print(f"Removed {freed:,.1f} MB.")
    else:
        console.print(f"{total:,.1f} MB could go. Add --yes to remove them.")


def _without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def _show(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(list(rows), indent=2, ensure_ascii=False))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, value in rows[0].items():
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(
            name.replace("_", " "),
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=name in FIXED or numeric,
        )
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    console.print(table)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "●" if value else ""
    if name == "memory_bytes":
        return f"{value / 2**30:.1f} GiB"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return escape(str(value))
