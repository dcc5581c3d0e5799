"""The run-time table from timings made up here, its figures worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import pandas as pd
import plotly.graph_objects as go
import pytest

from twolevers.orderings import orderings
from twolevers.published import CHAPTER_7
from twolevers.report.charts import heat_map
from twolevers.report.table import table_frame, table_markdown
from twolevers.run_times import Column, newest_workload, run_times
from twolevers.tracking.timings import COLUMNS

NANO, SMALL, MEDIUM = "gpt2-nano (7M)", "gpt2-small (124M)", "gpt2-medium (355M)"
XEON, L4 = "Intel Xeon", "NVIDIA L4"
NUMBERS = count(1)
CPU, GPU = Column("cpu", XEON, 2, "float32"), Column("cuda", L4, None, "bfloat16")


def timing(
    model: str,
    seconds: float,
    *,
    device: str = "cpu",
    hardware: str = XEON,
    threads: int | None = 2,
    precision: str = "float32",
    version: str = "0.1.0",
    workload: str = "aaaa",
) -> tuple[object, ...]:
    """One row of `list_timings`."""
    parts = {"task": "instructions", "epochs": 2, "data": "ab" * 32}
    started = datetime(2026, 11, 30, tzinfo=UTC)
    levers = (f"run-{next(NUMBERS)}", model, device, hardware, threads, precision)
    return (*levers, seconds, version, workload, parts, started)


def frame(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_a_cell_is_the_median_of_its_runs() -> None:
    table = run_times(frame(*(timing(NANO, seconds) for seconds in (50.0, 58.0, 53.0))), "aaaa")
    cell = table.cells[NANO, CPU]
    assert (cell.seconds, cell.fastest, cell.slowest, cell.spread) == (53.0, 50.0, 58.0, 8.0)
    assert len(cell.run_ids) == 3


def test_rows_go_by_size_columns_by_kind_and_what_nobody_measured_is_empty() -> None:
    gpu = {"device": "cuda:1", "hardware": L4, "precision": "bfloat16"}
    table = run_times(
        frame(timing(SMALL, 300.0), timing(MEDIUM, 110.0, **gpu), timing(SMALL, 41.0, **gpu)),
        "aaaa",
        models=[NANO],
    )
    assert table.models == (NANO, SMALL, MEDIUM)
    assert table.columns == (CPU, GPU), "threads of the CPU are none of a GPU's name"
    assert table.fastest is table.cells[SMALL, GPU]
    assert table.slowest is table.cells[SMALL, CPU]
    numbers = table_frame(table)
    assert numbers.isna().sum().sum() == 3
    assert numbers.loc[SMALL].tolist() == [300.0, 41.0]
    assert list(numbers.columns) == ["Intel Xeon, 2 threads, float32", "NVIDIA L4, bfloat16"]


@pytest.mark.parametrize(
    "other",
    [{"threads": 4}, {"precision": "bfloat16"}, {"hardware": "AMD EPYC"}],
)
def test_another_device_is_another_column(other: dict[str, object]) -> None:
    table = run_times(frame(timing(NANO, 50.0), timing(NANO, 40.0, **other)), "aaaa")  # type: ignore[arg-type]
    assert len(table.columns) == 2
    assert sorted(cell.seconds for cell in table.cells.values()) == [40.0, 50.0]


def test_only_one_workload_shares_a_table() -> None:
    timings = frame(timing(NANO, 9.0, workload="bbbb"), timing(NANO, 50.0), timing(SMALL, 9.0))
    assert newest_workload(timings) == "bbbb"
    assert [*run_times(timings, "bbbb").cells] == [(NANO, CPU)]
    assert run_times(timings, "cccc").cells == {}
    assert newest_workload(frame()) is None


def test_plotly_draws_the_table_as_a_heat_map() -> None:
    gpu = {"device": "cuda:0", "hardware": L4, "precision": "bfloat16"}
    timings = frame(timing(NANO, 100.0), timing(SMALL, 1000.0), timing(SMALL, 10.0, **gpu))
    figure = go.Figure(heat_map(run_times(timings, "aaaa")))
    [heat] = figure.data
    assert heat.y == (NANO, SMALL)
    assert [row[0] for row in heat.z] == pytest.approx([2.0, 3.0]), "the logarithm of seconds"
    assert [row[1] for row in heat.z] == [None, pytest.approx(1.0)], "nobody measured one"
    assert list(heat.text[0]) == ["1 min 40 s<br>(1 run)", ""]
    assert heat.text[1][1] == "10.0 s<br>(1 run), fastest"


def test_the_newest_core_version_alone_counts() -> None:
    """0.10 is newer than 0.9; a cell that only an older one measured says so."""
    rows = [timing(NANO, 60.0, version="0.9.0"), timing(NANO, 40.0, version="0.10.0")]
    table = run_times(frame(*rows, timing(SMALL, 300.0, version="0.9.0")), "aaaa")
    assert table.core_version == "0.10.0"
    assert table.cells[NANO, CPU].seconds == 40.0
    text = table_markdown(table)
    assert "300" not in text
    assert "5 min 00 s (1 run, version 0.9.0), slowest" in text


def test_markdown_is_a_table_that_says_what_it_is_of() -> None:
    gpu = {"device": "cuda:0", "hardware": L4, "precision": "bfloat16"}
    timings = frame(timing(NANO, 52.8), timing(NANO, 53.6), timing(SMALL, 41.4, **gpu))
    lines = table_markdown(run_times(timings, "aaaa"), ["gpt2-nano\non mps: none here"]).split("\n")
    assert lines[:4] == [
        "| model | Intel Xeon, 2 threads, float32 | NVIDIA L4, bfloat16 |",
        "| --- | ---: | ---: |",
        "| gpt2-nano (7M) | 53.2 s (2 runs, 52.8 to 53.6 s), slowest |  |",
        "| gpt2-small (124M) |  | 41.4 s (1 run), fastest |",
    ]
    assert "instructions, 2 epochs · core version 0.1.0 · data abababab · workload aaaa" in lines
    assert "- gpt2-nano on mps: none here" in lines


def test_what_the_chapter_says_holds_on_its_own_table() -> None:
    """The published figures, as if they had been measured here."""
    rows = [
        timing(model, minutes * 60, device="cpu" if "CPU" in device else "cuda", hardware=device)
        for model, row in CHAPTER_7.minutes.items()
        for device, minutes in row.items()
    ]
    found = orderings(run_times(frame(*rows), "aaaa"))
    assert [(one.verdict, one.why) for one in found] == [
        ("holds", "in 4 pairs"),
        ("holds", "in 6 pairs"),
        ("holds", "it is gpt2-small (124M) on A100, float32"),
        ("holds", "it is gpt2-medium (355M) on M3 MacBook Air CPU, 2 threads, float32"),
    ]


def test_what_the_chapter_says_can_fail_or_be_unmeasured() -> None:
    gpu = {"device": "cuda:0", "hardware": L4}
    rows = [timing(NANO, 60.0), timing(SMALL, 300.0), timing(NANO, 65.0, **gpu)]
    assert [one.verdict for one in orderings(run_times(frame(*rows), "aaaa"))] == [
        "holds",
        "fails",
        "fails",
        "holds",
    ]
    slow_gpu = orderings(run_times(frame(*rows), "aaaa"))[1]
    assert "65.0 s and 60.0 s" in slow_gpu.why
    alone = orderings(run_times(frame(timing(NANO, 60.0)), "aaaa"))
    assert {one.verdict for one in alone} == {"not measured"}
    no_corner = orderings(run_times(frame(timing(NANO, 60.0), timing(SMALL, 9.0, **gpu)), "aaaa"))
    assert {one.verdict for one in no_corner} == {"not measured"}
