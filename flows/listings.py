"""What there is: models, devices, data sets, runs. A table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.terminal import console
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, did_you_mean
from twolevers.report.texts import seconds_text
from twolevers.settings import load_settings
from twolevers.tracking import names

FIXED = (
    "model",
    "name",
    "device",
    "run_id",
    "kind",
    "of",
    "chosen",
    "status",
    "match",
)
"""Columns that never break; the others give way in a narrow terminal."""
FIGURES = {
    names.FINE_TUNE: ("2 epochs", "val loss", "match"),
    names.EVALUATION: ("of", "val loss", "match"),
    names.CLASSIFY: ("test acc.",),
}
"""The columns of runs that a kind of run can fill; those that none in a list can are left out."""

FOLDED = {"start, UTC": 7, "2 epochs": 6, "val loss": 5, "test acc.": 5}
"""Widths in characters that break between words alone."""


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


def runs(as_json: bool, limit: int, kind: str | None = None) -> None:
    """Runs of every kind, or of one.

    Raises:
        InputError: there is no such kind.
    """
    from twolevers.tracking.queries import list_runs

    if kind is not None and kind not in names.LISTED:
        what = f"no such kind of run{did_you_mean(kind, names.LISTED)}"
        raise InputError(Problem("--kind", kind, what, f"choose one of {', '.join(names.LISTED)}"))
    kinds = names.LISTED if kind is None else (kind,)
    frame = list_runs(writable_home(), load_settings(), limit, kinds=kinds)
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    if not rows and not as_json:
        what = f"No {kind} run" if kind else "No run"
        console.print(f"{what} yet. Start one with `{names.STARTED_BY[kinds[0]].split(',')[0]}`.")
        return
    if as_json:
        _show(rows, True)
        return
    listed = {row["kind"] for row in rows}
    filled = {column for one in listed for column in FIGURES[one]}
    hidden = {column for columns in FIGURES.values() for column in columns} - filled
    # Beside the other kinds' columns there is no room for what an evaluation is of.
    hidden.add("kind" if len(listed) == 1 else "of")
    _show(_without([_in_short(row) for row in rows], *hidden), False)


def _in_short(row: dict[str, Any]) -> dict[str, Any]:
    """A run on one line of a terminal."""
    return {
        "run_id": str(row["run_id"])[:8],
        "kind": row["kind"],
        "model": row["model"] and str(row["model"]).split(" ")[0],
        "of": _evaluated(row),
        "device": row["device"],
        "status": row["status"],
        "start, UTC": str(row["started"])[5:16].replace("T", " "),
        "2 epochs": seconds_text(row["two_epoch_seconds"]),
        "val loss": _score(row, "val_loss"),
        "match": _score(row, "exact_match"),
        "test acc.": row["test_accuracy"],
    }


def _score(row: dict[str, Any], name: str) -> float | None:
    """Of a fine-tuning the tuned model's; of an evaluation that of its one model."""
    tuned, base = (row[f"{name}_{role}"] for role in ("tuned", "base"))
    return base if tuned is None and row["kind"] == names.EVALUATION else tuned


def _evaluated(row: dict[str, Any]) -> str | None:
    """The run whose model an evaluation is of, or that it is of a model before fine-tuning."""
    if row["evaluation_of"]:
        return str(row["evaluation_of"])[:8]
    return "base" if row["val_loss_base"] is not None else None


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
    # Runs of several kinds have columns for all of them: folded, they just fit into 80 characters.
    padding = (0, 1, 0, 0) if "kind" in rows[0] else (0, 1)
    folded = FOLDED if "kind" in rows[0] and console.width < 100 else {}
    table = Table(box=None, header_style="bold", pad_edge=False, padding=padding)
    for name in rows[0]:
        numeric = any(_is_figure(row[name]) for row in rows)
        table.add_column(
            name.replace("_", " "),
            justify="right" if numeric else "left",
            overflow="fold",
            width=folded.get(name),
            no_wrap=name in FIXED or (numeric and " " not in name),
        )
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    console.print(table)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "●" if value else ""
    if name == "memory_bytes":
        return f"{value / 2**30:.1f} GiB"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:#.4g}"  # five signs
    if isinstance(value, int):
        return f"{value:,}"
    return escape(str(value))
