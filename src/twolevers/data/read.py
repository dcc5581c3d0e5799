"""Entries out of a file, one at a time: JSON, JSON Lines, CSV, TSV or Parquet, told by content.

Text is UTF-8 whatever the locale, with or without a byte-order mark. What is wrong with the rows
is collected to the end of the file and raised as one error; the good rows have been handed out
by then, so whoever writes them down must be able to take that back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from twolevers.data.find_shape import find_shape
from twolevers.data.format import recognise
from twolevers.data.mapping import columns_of
from twolevers.data.prompt import Entry
from twolevers.data.rows import READERS, Source
from twolevers.data.shapes import KNOWN, Shape
from twolevers.errors import InputError, Problem

SHOWN_ROWS = 20
_FIRST_ROWS = 1000
"""JSON has no header: the keys of so many rows stand for one."""


class Entries:
    """The entries of a file, to be gone through once.

    Args:
        mapping: from `parse_map`.

    Raises:
        InputError: the file cannot be read, or no shape is known that its fields have.
    """

    def __init__(self, path: Path, mapping: Mapping[str, str]) -> None:
        self.path = path
        self.num_rows = self.num_bad = 0
        self.problems: list[Problem] = []
        """What is wrong with the first 20 rows that are no entries."""
        columns: Sequence[str] = ()
        shape: Shape | None = None

        def choose(header: Sequence[str]) -> list[str]:
            nonlocal columns, shape
            columns, shape = header, find_shape(path.name, header, mapping)
            return shape.columns

        names = KNOWN | {*columns_of(mapping.values())}
        found = recognise(path, names, has_columns=bool(mapping))
        rows = READERS[found.kind](Source(path, found.delimiter, found.quoted, names, choose))
        first = list(islice(rows, _FIRST_ROWS))
        if shape is None:
            keys = (key for _, row in first if isinstance(row, dict) for key in row)
            columns = [*dict.fromkeys(keys)]
            shape = find_shape(path.name, columns, mapping if first else {})
        self.shape: Shape = shape
        self.unread = [*dict.fromkeys(name for name in columns if name not in shape.columns)]
        """Columns that nothing is taken from; of JSON, those of its first 1,000 rows."""
        self._rows = chain(first, rows)

    def __iter__(self) -> Iterator[tuple[int, Entry]]:
        """Row numbers, counted from 1 (a CSV's header is no row), and entries. A row that is no
        entry is counted and passed over."""
        for number, (where, row) in enumerate(self._rows, start=1):
            self.num_rows = number
            if entry := self.shape.entry(row):
                yield number, entry
                continue
            self.num_bad += 1
            if self.num_bad <= SHOWN_ROWS:
                self.problems += [
                    Problem(f"{self.path.name}, {where}", _short(value), what, way_out)
                    for value, what, way_out in self.shape.faults(row)
                ]

    def check(self) -> None:
        """To be called at the end.

        Raises:
            InputError: there were none, or rows that are no entries: the first 20 of them and how
                many there are.
        """
        problems = list(self.problems)
        if self.num_bad > SHOWN_ROWS:
            what = f"{self.num_bad - SHOWN_ROWS} more rows are no entries ({self.num_bad} in all)"
            problems.append(Problem(self.path.name, None, what, "correct them in the same way"))
        if not self.num_rows:
            problems.append(Problem(self.path.name, None, "holds no entries", "give at least 10"))
        if problems:
            raise InputError(problems)


def read_entries(
    path: Path, mapping: Mapping[str, str] | None = None
) -> Iterator[tuple[int, Entry]]:
    """The entries of a file with their row numbers.

    Raises:
        InputError: as `Entries` and its `check`.
    """
    entries = Entries(path, mapping or {})
    yield from entries
    entries.check()


def _short(value: object) -> object:
    """What is shown of a value: a page of it would hide what is wrong."""
    if isinstance(value, str):
        return value if len(value) <= 60 else value[:60] + "…"
    return value if len(repr(value)) <= 60 else repr(value)[:60] + "…"
