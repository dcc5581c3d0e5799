"""`make bench`: measures, prints a table, writes `results/latest.json` and a picture.

BENCH=steps|generate|tokenise|overhead  one part of the table alone
BENCH=loss|memory|growth|floor|forecast|serving|judging|data  what the table does not hold
BENCH_FULL=1                            all 110 answers for every peer
BENCH_DATA=FILE                         other data than chapter 7's
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from rich.console import Console

from benchmarks import data as inspecting
from benchmarks import (
    floor,
    forecast,
    generate,
    growth,
    judging,
    loss,
    memory,
    overhead,
    serving,
    steps,
    tokenise,
)
from benchmarks.job import data_file, write_weights
from benchmarks.result import Result
from benchmarks.show import machine, print_table, write_results

Measure = Callable[[Path, Path], list[Result]]
Report = Callable[[Path, Path], str]

TABLE: dict[str, Measure] = {
    "steps": steps.measure,
    "generate": generate.measure,
    "tokenise": lambda data, _weights: tokenise.measure(data),
    "overhead": lambda _data, _weights: overhead.measure(),
}
REPORTS: dict[str, Report] = {
    "data": lambda data, _weights: inspecting.measure(data),
    "floor": lambda data, weights: floor.report(floor.measure(data, weights)),
    "growth": growth.measure,
    "memory": lambda data, _weights: memory.measure(data),
    "forecast": lambda data, _weights: forecast.measure(data),
    "serving": serving.measure,
    "judging": lambda _data, _weights: judging.report(judging.measure()),
    "loss": lambda data, weights: loss.report(loss.measure(data, weights)),
}


def main() -> int:
    asked, console = os.environ.get("BENCH", ""), Console()
    if asked and asked not in {*TABLE, *REPORTS}:
        print(f"BENCH={asked}: no such part; choose one of {', '.join([*TABLE, *REPORTS])}")
        return 2
    data, began = data_file(), time.monotonic()
    console.print(f"{machine()}, {date.today().isoformat()}", highlight=False)
    console.print(f"data: {data.name}", highlight=False)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        weights = write_weights("gpt2-small (124M)", Path(folder) / "weights")
        for name in [asked] if asked in TABLE else [] if asked else list(TABLE):
            with console.status(f"measuring: {name} …"):
                found = TABLE[name](data, weights)
            results += found
            print_table(found, console)
        for name in [asked] if asked in REPORTS else [] if asked else ["floor"]:
            with console.status(f"measuring: {name} …"):
                text = REPORTS[name](data, weights)
            console.print(text, highlight=False)
    if results and not asked:
        console.rule("all of it")
        print_table(results, console)
    if results:
        write_results(results)
    console.print(f"{(time.monotonic() - began) / 60:.1f} minutes", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
