"""What the difference between two timed runs can be put down to: the model, the device, neither.

One lever is held fixed at a time. Where both were turned the difference cannot be attributed, and
what is said instead is which run would make it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

from twolevers.commands import classify_command, fine_tune_command
from twolevers.errors import InputError, Problem
from twolevers.fingerprint import fingerprint_differences
from twolevers.run_times import Cell, Column, RunTimes, cell_of, column_of, records
from twolevers.tracking import names

if TYPE_CHECKING:
    import pandas as pd

    from twolevers.tracking.run_info import RunInfo

Lever = Literal[
    "model", "device", "precision", "device and precision", "both", "neither", "workload"
]
Direction = Literal["row", "column"]


@dataclass(frozen=True)
class TimedRun:
    """One of the runs that are compared, and the others like it."""

    run: RunInfo
    model: str
    device: str
    """As PyTorch takes it."""
    column: Column
    cell: Cell
    """Runs of this model on this device by this version of the code, this one among them."""
    fingerprint: str
    workload: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.model} on {self.column.label}"


@dataclass(frozen=True)
class Difference:
    """Two runs beside each other."""

    slower: TimedRun
    faster: TimedRun
    lever: Lever
    """What was turned between the two; nothing else was."""
    text: str
    """The answer in a sentence or two."""
    command: str | None = None
    """The run that would make the difference attributable."""

    @property
    def ratio(self) -> float | None:
        """Times as long; None where a ratio would mean nothing."""
        if self.lever in ("both", "workload"):
            return None
        return self.slower.cell.seconds / self.faster.cell.seconds


def find_timed(timings: pd.DataFrame, runs: Sequence[RunInfo]) -> list[TimedRun]:
    """The runs with their times.

    Args:
        timings: `tracking.timings.list_timings`.

    Raises:
        InputError: runs without a two-epoch time, all of them named; fewer than two runs.
    """
    rows = {row["run_id"]: row for row in records(timings)}
    distinct = list({run.run_id: run for run in runs}.values())
    problems = [
        Problem(
            "run",
            run.run_id or run.name,
            f"has no two-epoch time ({_why_untimed(run)})",
            "choose from the runs with a time: twolevers runs",
        )
        for run in distinct
        if run.run_id not in rows
    ]
    if len(distinct) < 2:
        problems.append(Problem("run", None, "one run has nothing to compare with", "name two"))
    if problems:
        raise InputError(problems)
    return [_timed(run, rows[str(run.run_id)], list(rows.values())) for run in distinct]


def _why_untimed(run: RunInfo) -> str:
    if run.run_id is None:
        return "it is a checkpoint of no run"
    if run.status == "RUNNING":
        return "it is still running"
    if run.status != "FINISHED":
        return f"it did not finish: it is {run.status}"
    return "it was resumed, or ran other than two epochs"


def _timed(run: RunInfo, row: dict[str, Any], rows: list[dict[str, Any]]) -> TimedRun:
    alike = ("model", "fingerprint", "core_version")
    others = [
        other
        for other in rows
        if column_of(other) == column_of(row) and all(other[key] == row[key] for key in alike)
    ]
    return TimedRun(
        run=run,
        model=row["model"],
        device=row["device"],
        column=column_of(row),
        cell=cell_of(others),
        fingerprint=row["fingerprint"],
        workload=row["workload"] or {},
    )


def differences(runs: Sequence[TimedRun]) -> list[Difference]:
    """Every pair of the runs, in their order."""
    return [_difference(one, other, runs) for one, other in combinations(runs, 2)]


def _difference(one: TimedRun, other: TimedRun, runs: Sequence[TimedRun]) -> Difference:
    faster, slower = sorted((one, other), key=lambda run: run.cell.seconds)
    if one.fingerprint != other.fingerprint:
        parts = "; ".join(fingerprint_differences(one.workload, other.workload))
        text = f"Not comparable: the workloads differ ({parts or 'how was not kept'})."
        return Difference(slower, faster, "workload", text)
    same_model, same_place = one.model == other.model, _place(one) == _place(other)
    same_precision = one.column.precision == other.column.precision
    if not same_model and one.column != other.column:
        return _not_attributable(slower, faster, runs)
    text, command = _ratio_text(slower, faster), None
    lever: Lever
    if not same_model:
        lever, text = "model", f"The model, on {one.column.label}: {text}"
    elif same_place and same_precision:
        lever, text = "neither", f"Neither lever was turned, {one.name}: {text}"
    elif same_place:
        lever, text = "precision", f"The precision, not the device, for {one.model}: {text}"
    elif same_precision:
        lever, text = "device", f"The device, for {one.model}: {text}"
    else:
        lever = "device and precision"
        command = _equal_precision(slower, faster)
        text = f"Device and precision both, for {one.model}: {text} Their shares are not known."
    return Difference(slower, faster, lever, text + _versions(one, other), command)


def _place(run: TimedRun) -> tuple[object, ...]:
    return run.column.kind, run.column.hardware, run.column.threads


def _ratio_text(slower: TimedRun, faster: TimedRun) -> str:
    a, b = slower.cell, faster.cell
    text = f"{_short(slower, faster)} takes {a.seconds / b.seconds:.2f} times as long"
    text += f" as {_short(faster, slower)}"
    runs = len(a.run_ids), len(b.run_ids)
    if runs == (1, 1):
        return f"{text} (one run each: the spread is not known)."
    low, high = a.fastest / b.slowest, a.slowest / b.fastest
    return f"{text} ({low:.2f} to {high:.2f}, of {runs[0]} and {runs[1]} runs)."


def _short(run: TimedRun, other: TimedRun) -> str:
    """What tells the one from the other."""
    if run.model != other.model:
        return run.model
    if _place(run) != _place(other):
        return run.column.label
    if run.column.precision != other.column.precision:
        return run.column.precision
    return f"run {(run.run.run_id or '')[:8]}"


def _versions(one: TimedRun, other: TimedRun) -> str:
    versions = one.cell.core_version, other.cell.core_version
    if versions[0] == versions[1]:
        return ""
    return f" The code differs too: versions {versions[0]} and {versions[1]}."


def _not_attributable(slower: TimedRun, faster: TimedRun, runs: Sequence[TimedRun]) -> Difference:
    text = (
        f"Not attributable: model and device both differ ({slower.name}, {slower.cell.seconds:.1f} "
        f"s; {faster.name}, {faster.cell.seconds:.1f} s)."
    )
    corners = {(slower.model, faster.column): faster, (faster.model, slower.column): slower}
    between = [run for run in runs if (run.model, run.column) in corners]
    if between:
        text += f" Step by step over {between[0].name}, which is among the runs."
        return Difference(slower, faster, "both", text)
    text += f" {faster.model} on {slower.column.label} would part the two:"
    command = _command(faster, device=slower.device, **_precision(slower))
    return Difference(slower, faster, "both", text, command)


def _equal_precision(slower: TimedRun, faster: TimedRun) -> str:
    """The faster device in the slower one's precision: most devices compute in that."""
    return _command(faster, device=faster.device, **_precision(slower))


def _command(run: TimedRun, **levers: str) -> str:
    """What would start the run with levers turned."""
    start = classify_command if run.run.kind == names.CLASSIFY else fine_tune_command
    return start(run.run.params, **levers)


def _precision(run: TimedRun) -> dict[str, str]:
    return {"precision": run.column.precision}


@dataclass(frozen=True)
class Bars:
    """One row or one column of the table, to be read along."""

    title: str
    bars: tuple[tuple[str, Cell], ...]
    """Label and cell, in the table's order."""
    sentence: str


def along(table: RunTimes, direction: Direction) -> Iterator[Bars]:
    """Every row (the device changes) or column (the model changes) with two cells or more."""
    lines = table.models if direction == "row" else table.columns
    for line in lines:
        if direction == "row":
            places = [(str(line), column) for column in table.columns]
            labels = [column.label for column in table.columns]
        else:
            places = [(model, line) for model in table.models]  # type: ignore[misc]
            labels = list(table.models)
        bars = [
            (label, table.cells[place])
            for label, place in zip(labels, places, strict=True)
            if place in table.cells
        ]
        if len(bars) > 1:
            title = str(line) if isinstance(line, str) else line.label
            precisions = {place[1].precision for place in places if place in table.cells}
            yield Bars(title, tuple(bars), _sentence(title, bars, len(precisions) > 1))


def _sentence(title: str, bars: list[tuple[str, Cell]], precisions_differ: bool) -> str:
    fastest, *others = sorted(bars, key=lambda bar: bar[1].seconds)
    times = ", ".join(
        f"{label} {cell.seconds / fastest[1].seconds:.1f} times as long" for label, cell in others
    )
    text = f"{title}: {fastest[0]} is the fastest; {times}."
    return text + " Precisions differ." * precisions_differ
