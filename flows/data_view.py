"""How a data set looks in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from flows.terminal import console
from flows.views import grid
from twolevers.data.fetch import fetch_dataset
from twolevers.data.inspect import Inspection, inspect
from twolevers.data.values import listed
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem
from twolevers.files import write_output
from twolevers.options import build_options
from twolevers.progress import Silent
from twolevers.report.data_page import bins, data_html, figures, findings

_BAR = 40


def show_data(given: dict[str, Any], html: Path | None, as_json: bool) -> bool:
    """Print what was found, or write it; returns whether a run would start with it.

    Args:
        given: options as on the command line.

    Raises:
        InputError: an option that cannot be used, or a file that cannot be read.
    """
    options = build_options(given)
    dataset = fetch_dataset(options.dataset, writable_home(), Silent())
    if html is not None and html.exists() and html.samefile(dataset.path):
        raise InputError(Problem("--html", str(html), "is the data set itself", "name another"))
    found = inspect(dataset, options.data, seed=options.training.seed, progress=Silent())
    if html is not None:
        write_output(html, data_html(found), "--html")
    if as_json:
        print(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        _print(found)
        if html is not None:
            console.print(f"Written to {html}", markup=False)
    return not found.refusals


def _print(found: Inspection) -> None:
    about = {"data set": found.dataset, "shape": found.shape}
    about |= {"not read": listed(found.unread)} if found.unread else {}
    console.print(grid(about | figures(found)))
    console.print(_lengths(found))
    console.print(_scripts(found))
    lines = list(findings(found)) or ["Nothing repeats, nothing is cut, nothing is missing."]
    for line in lines:
        console.print(f"- {line}", markup=False)
    if found.refusals:
        console.print("\n[bold]A run would not start:[/bold]")
        for line in found.refusals:
            console.print(f"- {line}", markup=False)


def _lengths(found: Inspection) -> Table:
    table = _table("tokens of a row")
    table.add_column("", justify="right")
    table.add_column("rows", justify="right")
    table.add_column("")
    most = max(found.histogram["counts"]) or 1
    for name, count in bins(found.histogram):
        table.add_row(name, f"{count:,}", "█" * (-(-count * _BAR // most)))
    return table


def _scripts(found: Inspection) -> Table:
    table = _table("tokens per character")
    for column in ("script", "characters", "tokens per character"):
        table.add_column(column, justify="left" if column == "script" else "right")
    for one in found.scripts:
        table.add_row(one.script, f"{one.characters:,}", f"{one.tokens_per_character:.2f}")
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None)
