"""`twolevers compare`: what the difference between runs can be put down to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from flows.terminal import console
from twolevers.compare import Bars, Difference, TimedRun, differences, find_timed
from twolevers.environment import writable_home
from twolevers.files import write_output
from twolevers.report.again import reported_run
from twolevers.report.comparison_page import comparison_html
from twolevers.report.table import runs_text
from twolevers.report.texts import seconds_text
from twolevers.settings import load_settings
from twolevers.tracking import names
from twolevers.tracking.kinds import check_kind
from twolevers.tracking.queries import find_run
from twolevers.tracking.timings import list_timings

BAR_WIDTH = 32


def compare(runs: Sequence[str], as_json: bool, output: Path | None = None) -> None:
    """Print each pair of the runs with what it differs in, and the ratio where it means something.

    Args:
        output: file to write all of it into, as a page.

    Raises:
        InputError: no such run, one without a two-epoch time, or fewer than two.
    """
    home, settings = writable_home(), load_settings()
    kinds = (names.FINE_TUNE, names.CLASSIFY)
    found = [check_kind(find_run(run, home, settings), run, *kinds) for run in runs]
    timed = find_timed(list_timings(home, settings), found)
    pairs = differences(timed)
    if output:
        reported = [reported_run(one.run, home, settings) for one in timed]
        print(f"Written to {write_output(output, comparison_html(timed, pairs, reported))}")
        return
    if as_json:
        print(json.dumps([_as_json(pair) for pair in pairs], indent=2, ensure_ascii=False))
        return
    console.print(_runs(timed))
    for pair in pairs:
        console.print(f"\n{escape(pair.text)}")
        if pair.command:
            console.print(f"  {escape(pair.command)}", soft_wrap=True)


def print_bars(bars: Bars) -> None:
    """One row or column of the table as bars, the longest the slowest, then in a sentence."""
    console.print(f"\n[bold]{escape(bars.title)}[/bold]")
    longest = max(cell.seconds for _, cell in bars.bars)
    grid = Table.grid(padding=(0, 1))
    for label, cell in bars.bars:
        length = max(round(BAR_WIDTH * cell.seconds / longest), 1)
        grid.add_row(escape(label), "█" * length, seconds_text(cell.seconds))
    console.print(grid)
    console.print(escape(bars.sentence), style="dim")


def _runs(timed: Sequence[TimedRun]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("run", "model", "device", "training, median"):
        table.add_column(name, overflow="fold", no_wrap=name in ("run", "model"))
    for one in timed:
        run_id = (one.run.run_id or "")[:8]
        cell = f"{seconds_text(one.cell.seconds)} ({runs_text(one.cell)})"
        table.add_row(run_id, one.model, escape(one.column.label), cell)
    return table


def _as_json(pair: Difference) -> dict[str, object]:
    return {
        "slower": pair.slower.run.run_id,
        "faster": pair.faster.run.run_id,
        "lever": pair.lever,
        "ratio": pair.ratio,
        "text": pair.text,
        "command": pair.command,
    }
