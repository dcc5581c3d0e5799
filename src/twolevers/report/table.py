"""The run-time table as people read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from twolevers.report.texts import seconds_text
from twolevers.run_times import Cell, RunTimes

HOW_TO_READ = (
    "Read along a row to see the device, down a column to see the model; never across both. "
    "A cell that nobody measured is empty."
)


def table_frame(table: RunTimes) -> pd.DataFrame:
    """Median two-epoch seconds: rows models, columns devices by their labels, NaN unmeasured."""
    return pd.DataFrame(
        [
            [
                cell.seconds if (cell := table.cells.get((model, column))) else None
                for column in table.columns
            ]
            for model in table.models
        ],
        index=pd.Index(table.models, name="model"),
        columns=[column.label for column in table.columns],
        dtype="float64",
    )


def table_rows(table: RunTimes) -> list[dict[str, Any]]:
    """One row a model for a table of texts: the model, then each device; unmeasured is empty."""
    return [
        {
            "model": model,
            **{
                column.label: cell_text(table, table.cells.get((model, column)))
                for column in table.columns
            },
        }
        for model in table.models
    ]


def cell_text(table: RunTimes, cell: Cell | None) -> str:
    """`53.1 s (3 runs, 52.8 to 53.6 s), fastest`; nothing where nobody measured."""
    if cell is None:
        return ""
    runs = len(cell.run_ids)
    about = [f"{runs} run{'s' * (runs != 1)}"]
    if runs > 1:
        about.append(f"{cell.fastest:.1f} to {cell.slowest:.1f} s")
    if cell.core_version != table.core_version:
        about.append(f"version {cell.core_version}")
    text = f"{seconds_text(cell.seconds)} ({', '.join(about)})"
    if len(table.cells) > 1:
        text += ", fastest" * (cell is table.fastest) + ", slowest" * (cell is table.slowest)
    return text


def about(table: RunTimes) -> str:
    """What all cells have in common: task, epochs, data, version, workload."""
    workload = table.workload
    parts = [
        f"{workload.get('task', 'instructions')}, {workload.get('epochs', 2)} epochs",
        f"core version {table.core_version}" if table.core_version else "",
        f"data {workload['data'][:8]}" if "data" in workload else "",
        f"workload {table.fingerprint}",
    ]
    return " · ".join(part for part in parts if part)


def table_markdown(table: RunTimes, not_measured: Iterable[str] = ()) -> str:
    """The table, what it is of, how to read it, and what is missing and why."""
    heads = ["model", *(column.label for column in table.columns)]
    lines = [_line(heads), _line(["---"] + ["---:"] * (len(heads) - 1))]
    lines += [_line(list(row.values())) for row in table_rows(table)]
    lines += ["", f"Median two-epoch time. {HOW_TO_READ}", "", about(table)]
    if missing := list(not_measured):
        lines += ["", "Not measured:", "", *(f"- {' '.join(line.split())}" for line in missing)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
