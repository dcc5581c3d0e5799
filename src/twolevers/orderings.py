"""What chapter 7 says of its table, checked on the user's own: holds, fails, or not measured.

Along a row and down a column only; where a device computes in another precision, that is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from twolevers.run_times import Cell, Column, RunTimes


@dataclass(frozen=True)
class Ordering:
    """One statement of the chapter's."""

    statement: str
    holds: bool | None
    """None where the table lacks the cells to say."""
    why: str
    """The pairs that speak against it, or how many were looked at."""

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "fails", None: "not measured"}[self.holds]


def orderings(table: RunTimes) -> list[Ordering]:
    """The chapter's four statements about `table`."""
    return [
        _over_pairs("Within a device the smaller model is faster", list(_down_columns(table))),
        _over_pairs("Within a model a GPU beats the CPU", list(_along_rows(table))),
        _extreme(table, "The fastest pair is the smallest model on a GPU", fastest=True),
        _extreme(table, "The slowest pair is the largest model on the CPU", fastest=False),
    ]


@dataclass(frozen=True)
class _Pair:
    faster: Cell
    """The one that the chapter says is faster."""
    slower: Cell
    named: str


def _down_columns(table: RunTimes) -> Iterator[_Pair]:
    for column in table.columns:
        here = [model for model in table.models if (model, column) in table.cells]
        for small, large in combinations(here, 2):
            cells = table.cells[small, column], table.cells[large, column]
            yield _Pair(*cells, f"{small} and {large} on {column.label}")


def _along_rows(table: RunTimes) -> Iterator[_Pair]:
    for model in table.models:
        here = [column for column in table.columns if (model, column) in table.cells]
        for cpu in (column for column in here if column.kind == "cpu"):
            for gpu in (column for column in here if column.kind != "cpu"):
                cells = table.cells[model, gpu], table.cells[model, cpu]
                yield _Pair(*cells, f"{model} on {gpu.label} and on {cpu.label}")


def _over_pairs(statement: str, pairs: list[_Pair]) -> Ordering:
    if not pairs:
        return Ordering(statement, None, "no two cells to compare")
    against = [pair for pair in pairs if pair.faster.seconds >= pair.slower.seconds]
    if not against:
        return Ordering(statement, True, f"in {len(pairs)} pair{'s' * (len(pairs) != 1)}")
    lines = (
        f"{pair.named}: {pair.faster.seconds:.1f} s and {pair.slower.seconds:.1f} s"
        for pair in against
    )
    return Ordering(statement, False, "; ".join(lines))


def _extreme(table: RunTimes, statement: str, *, fastest: bool) -> Ordering:
    """Said only where the pair that the chapter names was measured, and others to beat."""
    models = [model for model in table.models if any(model == row for row, _ in table.cells)]
    kinds = {column.kind for _, column in table.cells}
    if len(models) < 2 or "cpu" not in kinds or len(kinds) < 2:
        return Ordering(statement, None, "needs two models, a CPU and a GPU")
    choose, named = (min, models[0]) if fastest else (max, models[-1])
    if not any(m == named and (c.kind != "cpu") == fastest for m, c in table.cells):
        return Ordering(statement, None, f"{named} was not measured there")
    model, column = choose(table.cells, key=lambda place: table.cells[place].seconds)
    holds = model == named and (column.kind != "cpu") == fastest
    return Ordering(statement, holds, f"it is {_named(model, column)}")


def _named(model: str, column: Column) -> str:
    return f"{model} on {column.label}"
