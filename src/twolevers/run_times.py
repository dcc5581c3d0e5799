"""The run-time table: what the choice of model and of device costs, from tracked runs.

Rows are models, columns devices, a cell the median two-epoch time of its runs. Along a row the
device changes, down a column the model, nothing else: only runs of one workload share a table
(`twolevers.fingerprint`), and a cell that nobody measured stays empty. The lesson is chapter 7's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from twolevers.models.catalog import MODELS

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("cpu", "mps", "cuda")


@dataclass(frozen=True)
class Column:
    """A device as the table tells them apart: its hardware, its threads, its precision."""

    kind: str
    """`cpu`, `mps` or `cuda`."""
    hardware: str
    threads: int | None
    """CPU threads; None where the CPU is not what computes."""
    precision: str

    @classmethod
    def of(cls, device: str, hardware: str, threads: int | None, precision: str) -> Column:
        """The column that a run on `device` (`cpu`, `cuda:1`) belongs to."""
        kind = device.partition(":")[0]
        return cls(kind, hardware, threads if kind == "cpu" and threads else None, precision)

    @property
    def label(self) -> str:
        """`Intel(R) Xeon(R) Processor @ 2.80GHz, 2 threads, float32`."""
        threads = [f"{self.threads} thread{'s' * (self.threads != 1)}"] if self.threads else []
        return ", ".join([self.hardware or self.kind, *threads, self.precision])

    @property
    def _order(self) -> tuple[int, str, int, str]:
        kind = KINDS.index(self.kind) if self.kind in KINDS else len(KINDS)
        return kind, self.hardware, self.threads or 0, self.precision


@dataclass(frozen=True)
class Cell:
    """What was measured of one model on one device, by the newest core version that did."""

    seconds: float
    """The median of its runs, two epochs each."""
    fastest: float
    slowest: float
    run_ids: tuple[str, ...]
    """The newest first."""
    core_version: str

    @property
    def spread(self) -> float:
        """Slowest less fastest [s]."""
        return self.slowest - self.fastest


@dataclass(frozen=True)
class RunTimes:
    """Model × device for one workload."""

    fingerprint: str
    workload: dict[str, Any]
    """The fingerprint's parts by name; empty where no run kept them."""
    models: tuple[str, ...]
    """Full names, the smallest first."""
    columns: tuple[Column, ...]
    cells: dict[tuple[str, Column], Cell] = field(default_factory=dict)

    @property
    def core_version(self) -> str:
        """The newest that measured a cell; a cell of an older one says so itself."""
        return max((cell.core_version for cell in self.cells.values()), key=_version, default="")

    @property
    def fastest(self) -> Cell | None:
        return min(self.cells.values(), key=lambda cell: cell.seconds, default=None)

    @property
    def slowest(self) -> Cell | None:
        return max(self.cells.values(), key=lambda cell: cell.seconds, default=None)


def run_times(
    timings: pd.DataFrame,
    fingerprint: str,
    *,
    models: Iterable[str] = (),
    columns: Iterable[Column] = (),
) -> RunTimes:
    """The table of one workload.

    Args:
        timings: `tracking.timings.list_timings`.
        models, columns: shown in any case, measured or not.
    """
    rows = [row for row in records(timings) if row["fingerprint"] == fingerprint]
    gathered: dict[tuple[str, Column], list[dict[str, Any]]] = {}
    for row in rows:
        gathered.setdefault((row["model"], column_of(row)), []).append(row)
    workload: dict[str, Any] = next((row["workload"] for row in rows if row["workload"]), {})
    return RunTimes(
        fingerprint,
        workload,
        models=tuple(sorted({*models, *(model for model, _ in gathered)}, key=_size)),
        columns=tuple(
            sorted({*columns, *(column for _, column in gathered)}, key=lambda one: one._order)
        ),
        cells={place: cell_of(found) for place, found in gathered.items()},
    )


def newest_workload(timings: pd.DataFrame) -> str | None:
    """Fingerprint of the newest timing, of instructions where any were timed; None where nothing
    was."""
    rows = list(records(timings))
    instructions = (row for row in rows if _task(row) == "instructions")
    newest = next(instructions, rows[0] if rows else None)
    return str(newest["fingerprint"]) if newest else None


def column_of(row: dict[str, Any]) -> Column:
    """The column of one timing."""
    return Column.of(row["device"], row["hardware"], row["threads"], row["precision"])


def cell_of(rows: list[dict[str, Any]]) -> Cell:
    """The cell of its timings; only the newest core version's, another's code may be faster."""
    newest = max((row["core_version"] for row in rows), key=_version)
    rows = [row for row in rows if row["core_version"] == newest]
    seconds = [float(row["two_epoch_seconds"]) for row in rows]
    run_ids = tuple(str(row["run_id"]) for row in rows)
    return Cell(median(seconds), min(seconds), max(seconds), run_ids, newest)


def records(timings: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The timings one by one, with None where pandas has a number that is none."""
    for row in timings.to_dict(orient="records"):
        threads = row["threads"]
        known = {str(name): value for name, value in row.items()}
        yield known | {"threads": int(threads) if threads and threads == threads else None}


def _task(row: dict[str, Any]) -> str:
    return str((row["workload"] or {}).get("task", "instructions"))


def _size(model: str) -> tuple[int, str]:
    entry = MODELS.get(model)
    return (entry.config.num_parameters, model) if entry else (2**63, model)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))
