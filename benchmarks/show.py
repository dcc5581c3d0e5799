"""The table, the JSON and the picture."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.result import Result
from twolevers.device import find_device, find_precision
from twolevers.files import atomic_file, write_json

RESULTS = Path(__file__).parent / "results"
JSON_FILE, PICTURE = RESULTS / "latest.json", RESULTS / "latest.png"


def machine() -> str:
    cpu = find_device("cpu")
    return (
        f"{cpu.label}, {find_precision('auto', cpu)} by default, Python "
        f"{platform.python_version()}, torch {torch.__version__}"
    )


def wanted(result: Result) -> str:
    if result.most is not None:
        return f"at most {result.most:.1f} {result.unit}"
    return "" if result.target is None else f"at least {result.target:g}"


def print_table(results: Sequence[Result], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("work", "against"):
        table.add_column(name, overflow="fold", ratio=3)
    for name in ("ours", "theirs", "ratio", "wanted", ""):
        table.add_column(name, justify="right", no_wrap=name not in ("ours", "theirs"))
    verdicts = {True: "holds", False: "falls short", None: ""}
    for result in results:
        table.add_row(
            result.work,
            result.against,
            f"{result.ours:.4g} {result.unit}",
            f"{result.theirs:.4g} {result.unit}",
            f"{result.ratio:.2f}",
            wanted(result),
            verdicts[result.holds],
        )
    console.print(table)
    for result in results:
        for note in result.notes:
            console.print(f"  {note}", highlight=False)


def write_results(results: Sequence[Result]) -> None:
    """The lines of this run and no others: readings of two runs are not of one machine's mood."""
    lines = [result.as_json() for result in results]
    write_json(JSON_FILE, lines)
    if any(line["against"] for line in lines):  # orchestration alone has nobody to be faster than
        draw(lines)


def draw(lines: Sequence[dict[str, object]]) -> None:
    """One bar a line, on a scale where twice as fast is always as long."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [line for line in lines if line["against"]][::-1]
    figure, axes = pyplot.subplots(figsize=(11, 0.62 * len(shown) + 1.2), layout="constrained")
    ratios = [float(str(line["ratio"])) for line in shown]
    bars = axes.barh(range(len(shown)), ratios, color="#3b6ea8", height=0.55)
    axes.bar_label(bars, [f"{ratio:.1f} ×" for ratio in ratios], padding=4)
    axes.set_yticks(range(len(shown)), [_label(line) for line in shown], fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_xlim(1, 1.5 * max(ratios))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("times as fast as …")
    axes.spines[["top", "right"]].set_visible(False)
    with atomic_file(PICTURE) as temporary:
        figure.savefig(temporary, dpi=130, format="png", metadata={"Software": None})
    pyplot.close(figure)


def _label(line: dict[str, object]) -> str:
    return f"{line['work']}\nagainst {line['against']}"
