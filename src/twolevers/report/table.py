"""The run-time table as people and programs read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from twolevers.fingerprint import fingerprint_differences
from twolevers.orderings import Ordering, orderings
from twolevers.published import PublishedTable
from twolevers.report.texts import seconds_text
from twolevers.run_times import Cell, RunTimes

HOW_TO_READ = (
    "Read along a row to see the device, down a column to see the model; never across both. "
    "A cell that nobody measured is empty."
)


def table_frame(table: RunTimes) -> pd.DataFrame:
    """Median seconds: rows models, columns devices by their labels, NaN unmeasured."""
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


def cells_frame(table: RunTimes) -> pd.DataFrame:
    """One row a measured cell, for programs. Times in seconds; `threads` empty for a GPU."""
    return pd.DataFrame(
        [
            {
                "model": model,
                "device": column.kind,
                "hardware": column.hardware,
                "threads": column.threads,
                "precision": column.precision,
                "median_seconds": cell.seconds,
                "fastest_seconds": cell.fastest,
                "slowest_seconds": cell.slowest,
                "runs": len(cell.run_ids),
                "core_version": cell.core_version,
                "workload": table.fingerprint,
            }
            for model in table.models
            for column in table.columns
            if (cell := table.cells.get((model, column)))
        ]
    ).astype({"threads": "Int64"} if table.cells else {})


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
    mark = mark_of(table, cell)
    return f"{seconds_text(cell.seconds)} ({cell_notes(table, cell)})" + (mark and f", {mark}")


def cell_notes(table: RunTimes, cell: Cell) -> str:
    """`3 runs, 52.8 to 53.6 s`, and the version where it is an older one."""
    older = cell.core_version != table.core_version
    return runs_text(cell) + f", version {cell.core_version}" * older


def runs_text(cell: Cell) -> str:
    """`3 runs, 52.8 to 53.6 s`."""
    runs = len(cell.run_ids)
    if runs == 1:
        return "1 run"
    return f"{runs} runs, {cell.fastest:.1f} to {cell.slowest:.1f} s"


def mark_of(table: RunTimes, cell: Cell) -> str:
    """`fastest`, `slowest` or nothing; one cell alone is neither."""
    if len(table.cells) < 2:
        return ""
    return "fastest" if cell is table.fastest else "slowest" * (cell is table.slowest)


def timed_text(table: RunTimes) -> str:
    """What a cell's time is of: `two epochs`, or `5 epochs` of a classification."""
    epochs = table.workload.get("epochs", 2)
    return "two epochs" if epochs == 2 else f"{epochs} epoch{'s' * (epochs != 1)}"


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


def other_workloads(timings: pd.DataFrame, table: RunTimes) -> list[str]:
    """A line for each other workload that was timed: how many runs, and how it differs."""
    lines = []
    for fingerprint, group in timings.groupby("fingerprint", sort=False):
        if fingerprint == table.fingerprint:
            continue
        parts = next((parts for parts in group["workload"] if parts), None)
        if parts and table.workload:
            differs = "; ".join(fingerprint_differences(parts, table.workload))
        else:
            differs = "how it differs was not kept"
        lines.append(f"{fingerprint}, {len(group)} run{'s' * (len(group) != 1)}: {differs}")
    return lines


def ordering_text(ordering: Ordering) -> str:
    """`Within a device the smaller model is faster: holds (in 3 pairs)`."""
    return f"{ordering.statement}: {ordering.verdict} ({ordering.why})"


def table_markdown(
    table: RunTimes,
    not_measured: Iterable[str] = (),
    *,
    others: Iterable[str] = (),
    published: PublishedTable | None = None,
) -> str:
    """The table, what it is of, how to read it, and what is missing and why.

    Args:
        others: of `other_workloads`.
        published: laid below, marked as such.
    """
    heads = ["model", *(column.label for column in table.columns)]
    lines = [_line(heads), _line(["---"] + ["---:"] * (len(heads) - 1))]
    lines += [_line(list(row.values())) for row in table_rows(table)]
    lines += ["", f"Median time of {timed_text(table)}. {HOW_TO_READ}", "", about(table)]
    lines += _listed("Not measured", not_measured)
    lines += _listed("What chapter 7 says", map(ordering_text, orderings(table)))
    lines += _listed("Other workloads, in tables of their own", others)
    if published:
        lines += ["", f"Published, not measured here ({published.source}), in minutes:", ""]
        lines += [_line(["model", *published.devices])]
        lines += [_line(["---"] + ["---:"] * len(published.devices))]
        lines += [
            _line([model, *(f"{row[device]:.2f}" for device in published.devices)])
            for model, row in published.minutes.items()
        ]
    return "\n".join(lines)


def _listed(title: str, lines: Iterable[str]) -> list[str]:
    listed = [f"- {' '.join(line.split())}" for line in lines]
    return ["", f"{title}:", "", *listed] if listed else []


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
