"""`twolevers table`: the run-time table in the terminal, or as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pandas as pd
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from flows.compare import print_bars
from flows.terminal import console
from twolevers.compare import Direction, along
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, did_you_mean
from twolevers.files import write_output
from twolevers.grid import Grid, grid_table
from twolevers.options import Precision
from twolevers.orderings import orderings
from twolevers.plan import options_from
from twolevers.published import CHAPTER_7, PublishedTable
from twolevers.report.pages import table_html
from twolevers.report.pictures import heat_map
from twolevers.report.table import (
    HOW_TO_READ,
    about,
    cell_notes,
    cells_frame,
    mark_of,
    ordering_text,
    other_workloads,
    table_frame,
    table_markdown,
    timed_text,
)
from twolevers.report.texts import seconds_text
from twolevers.run_times import Cell, RunTimes, newest_workload, run_times
from twolevers.settings import load_settings
from twolevers.tracking.timings import list_timings

PRECISIONS = get_args(Precision)
DIRECTIONS = get_args(Direction)
FORMATS = ("terminal", "markdown", "csv", "html", "png")


def measured_grid(measure: bool, levers: dict[str, Any], dataset: str | None) -> Grid | None:
    """The grid after its runs; None where nothing is to be measured.

    Args:
        levers: parameters of the flow, those that were given.

    Raises:
        InputError: a name that means nothing; levers without `--measure`.
    """
    given = {**levers, **({"dataset": dataset} if dataset else {})}
    if not measure:
        if given:
            raise InputError(
                Problem(
                    ", ".join(given), None, "say what is to be timed", "add --measure, or drop them"
                )
            )
        return None
    from flows.launch import measure_table

    return measure_table(levers, options_from({"dataset": dataset}, load_settings()))


def levers_of(
    models: list[str] | None,
    devices: list[str] | None,
    precisions: list[str] | None,
    weights: list[str] | None,
    runs_per_cell: int | None,
    again: bool,
) -> dict[str, Any]:
    """The flow's own parameters, those that were given on the command line.

    Raises:
        InputError: weights that name no model, a precision that there is not.
    """
    named = [one.partition("=") for one in weights or ()]
    problems = [
        Problem("--weights", "".join(one), "names no model", 'write "gpt2-small=PATH"')
        for one in named
        if not one[2]
    ]
    problems += [
        Problem(
            "--precision",
            one,
            f"no such precision{did_you_mean(one, PRECISIONS)}",
            f"choose one of {', '.join(PRECISIONS)}",
        )
        for one in precisions or ()
        if one not in PRECISIONS
    ]
    if problems:
        raise InputError(problems)
    levers = {
        "models": models,
        "devices": devices,
        "precisions": precisions,
        "weights": {model: path for model, _, path in named},
        "runs_per_cell": runs_per_cell,
        "again": again,
    }
    return {name: value for name, value in levers.items() if value}


def show_table(
    form: str,
    output: Path | None,
    workload: str | None,
    published: bool,
    measured: Grid | None,
    direction: Direction | None,
) -> None:
    """Print the run-time table, or write it.

    Raises:
        InputError: a format or workload that means nothing, nothing timed yet.
    """
    if form not in FORMATS:
        what = f"no such format{did_you_mean(form, FORMATS)}"
        raise InputError(Problem("--format", form, what, f"choose one of {', '.join(FORMATS)}"))
    if direction not in (None, *DIRECTIONS):
        raise InputError(Problem("--along", direction, "is neither", "give row or column"))
    timings = list_timings(writable_home(), load_settings())
    table = grid_table(measured) if measured else run_times(timings, _workload(timings, workload))
    missing = measured.not_measured if measured else ()
    beside = CHAPTER_7 if published else None
    if direction:
        _print_along(table, direction)
        return
    others = other_workloads(timings, table)
    if form == "terminal" and output is None:
        _print(table, missing, others, beside)
        return
    _write(_rendered(form, table, missing, others, beside), output, form)


def _print_along(table: RunTimes, direction: Direction) -> None:
    found = list(along(table, direction))
    for bars in found:
        print_bars(bars)
    if not found:
        console.print(f"No {direction} of the table has two cells to compare yet.")


def _workload(timings: pd.DataFrame, asked: str | None) -> str:
    newest = newest_workload(timings)
    if newest is None:
        raise InputError(
            Problem(
                "table",
                None,
                "no run has been timed over two epochs yet",
                "time one: twolevers table --measure, or make table",
            )
        )
    if asked is None:
        return newest
    known = list(dict.fromkeys(timings["fingerprint"]))
    found = [fingerprint for fingerprint in known if fingerprint.startswith(asked.lower())]
    if len(found) != 1:
        what = f"means {len(found)} workloads" if found else "no run has this workload"
        raise InputError(Problem("--workload", asked, what, f"choose one of {', '.join(known)}"))
    return str(found[0])


def _rendered(
    form: str,
    table: RunTimes,
    missing: Sequence[str],
    others: Sequence[str],
    published: PublishedTable | None,
) -> str | bytes:
    if form == "csv":
        return cells_frame(table).to_csv(index=False)
    if form in ("markdown", "terminal"):
        return table_markdown(table, missing, others=others, published=published) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        picture = heat_map(
            Path(folder) / "table.png",
            table_frame(table),
            title=f"{timed_text(table).capitalize()}, median",
        ).read_bytes()
    if form == "png":
        return picture
    return table_html(table, missing, others=others, published=published, picture=picture)


def _write(content: str | bytes, output: Path | None, form: str) -> None:
    if output is None and isinstance(content, str):
        print(content, end="")
        return
    path = write_output(output or Path(f"run-time-table.{form}"), content)
    print(f"Written to {path}")


def _print(
    table: RunTimes,
    missing: Sequence[str],
    others: Sequence[str],
    published: PublishedTable | None,
) -> None:
    shown = Table(
        title=f"{timed_text(table)}, by model and device", title_justify="left", show_lines=True
    )
    shown.add_column("model", no_wrap=True)
    for column in table.columns:
        shown.add_column(escape(column.label), overflow="fold")
    for model in table.models:
        cells = (table.cells.get((model, column)) for column in table.columns)
        shown.add_row(model, *(_cell(table, cell) for cell in cells))
    console.print(shown)
    console.print(f"{HOW_TO_READ}\n{about(table)}", style="dim")
    _lines("not measured", missing)
    _lines("what chapter 7 says", [ordering_text(one) for one in orderings(table)])
    _lines("other workloads (--workload shows one)", others)
    if published:
        _print_published(published)


def _cell(table: RunTimes, cell: Cell | None) -> str:
    if cell is None:
        return ""
    mark = mark_of(table, cell)
    return f"{seconds_text(cell.seconds)} {mark}".rstrip() + f"\n{cell_notes(table, cell)}"


def _lines(title: str, lines: Sequence[str]) -> None:
    if lines:
        console.print(f"[bold]{title}[/bold]")
        for line in lines:
            console.print(Padding(escape(" ".join(line.split())), (0, 0, 0, 2)))


def _print_published(published: PublishedTable) -> None:
    shown = Table(title="published, not measured here [min]", title_justify="left")
    shown.add_column("model", no_wrap=True)
    for device in published.devices:
        shown.add_column(device, justify="right")
    for model, row in published.minutes.items():
        shown.add_row(model, *(f"{row[device]:.2f}" for device in published.devices))
    console.print(shown)
    console.print(published.source, style="dim")
