"""A file as a table of columns: CSV, TSV, Parquet, JSON or JSON Lines, told by content.

Text is UTF-8 whatever the locale, with or without a byte-order mark. Values are as the file has
them; in CSV and TSV they are text (`01` stays `01`, `NA` stays `NA`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from twolevers.data.format import SKIP_BOM, csv_rows, has_stray_quotes, refuse_foreign
from twolevers.data.rows import DECODER, wrapped
from twolevers.data.values import RepeatedKey, repeated
from twolevers.errors import InputError, Problem

_TAKEN = "give CSV, TSV, Parquet, JSON or JSON Lines"
_DELIMITERS = "\t,;|"
SHOWN = 20


@dataclass(frozen=True)
class Table:
    """Columns by name, all of one length; a value that a row lacks is None."""

    columns: dict[str, list[Any]]
    num_rows: int


def read_table(path: Path, *, header: bool = True) -> Table:
    """All of a file.

    Args:
        header: the first row of a CSV or TSV names its columns; without, they are `1`, `2` …

    Raises:
        InputError: it cannot be read, is none of the formats, or has rows that are broken: the
            first 20 of them and how many there are.
    """
    try:
        with path.open("rb") as file:
            start_bytes = file.read(64)
        if start_bytes.startswith(b"PAR1"):
            return _parquet(path)
        refuse_foreign(path, start_bytes)
        text = path.read_text(encoding=SKIP_BOM)
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise InputError(Problem("dataset", str(path), what, "give the path of a file")) from None
    except UnicodeDecodeError as error:
        what = f"is neither Parquet nor UTF-8 text (byte {error.start + 1})"
        raise InputError(Problem(path.name, None, what, f"save it as UTF-8; {_TAKEN}")) from None
    start = text.lstrip()[:1]
    if not start or "\0" in text:
        what = "holds a zero byte: it is no text" if start else "the file is empty"
        raise InputError(Problem(path.name, None, what, _TAKEN))
    if not header:  # nothing but CSV has none, whatever its first text begins with
        return _csv(path, text, header)
    if start == "<":
        what = f"looks like a web page: it begins with {text.strip()[:40]!r}"
        raise InputError(Problem(path.name, None, what, "download the data itself, not its page"))
    if start in "[{":
        return _from_rows(path, _json_rows(path, text, start))
    return _csv(path, text, header)


def refuse(path: Path, faults: Sequence[Problem], what: str) -> None:
    """Raises InputError with the first of the faults and, of more, how many there are."""
    if not faults:
        return
    shown = list(faults[:SHOWN])
    if len(faults) > SHOWN:
        more = f"{len(faults) - SHOWN} more {what} ({len(faults)} in all)"
        shown.append(Problem(path.name, None, more, "correct them in the same way"))
    raise InputError(shown)


def _parquet(path: Path) -> Table:
    try:
        with pa.parquet.ParquetFile(path) as file:
            _refuse_repeated(path, file.schema_arrow.names)
            table = file.read()
        return Table(table.to_pydict(), table.num_rows)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        what = f"cannot be read as Parquet: {error}"
        raise InputError(Problem(path.name, None, what, "write the file anew")) from None


def _csv(path: Path, text: str, header: bool) -> Table:
    first = next(line for line in text.split("\n") if line.strip())
    csv.field_size_limit(2**31 - 1)
    # A text holds commas, and no tab where tabs lie between columns.
    tab = "\t" in first
    delimiter = "\t" if tab else max(_DELIMITERS, key=lambda sign: _fit(text, sign))
    if _fit(first, delimiter)[1] < 2:
        what = f"has one column only: it begins with {first[:40]!r}"
        way_out = "give two columns, with a tab, comma, semicolon or bar between them"
        raise InputError(Problem(path.name, None, what, way_out))
    quoted = not (tab and has_stray_quotes(text.split("\n")))
    names: list[str] = []
    rows: list[list[str]] = []
    faults = []
    for line, row in csv_rows(path.name, io.StringIO(text, newline=""), delimiter, quoted):
        if not names:
            names = [cell.strip() for cell in row]
            if header:
                continue
            names = [str(number) for number in range(1, len(row) + 1)]
        rows.append(row)
        if len(row) != len(names):
            where = f"{path.name}, row {len(rows)} (line {line})"
            what = f"has {len(row)} columns where the first row has {len(names)}"
            way_out = "put what holds a delimiter or a line break in quotation marks"
            faults.append(Problem(where, delimiter.join(row)[:60], what, way_out))
    refuse(path, faults, "rows have another number of columns")
    values = list(map(list, zip(*rows, strict=True))) or [[] for _ in names]
    # Spreadsheets end every row, the header too, with the delimiters of columns that hold nothing.
    kept = [place for place, name in enumerate(names) if name or any(map(str.strip, values[place]))]
    _refuse_repeated(path, [names[place] for place in kept])
    return Table({names[place]: values[place] for place in kept}, len(rows))


def _fit(text: str, delimiter: str) -> tuple[bool, int]:
    """How well a delimiter fits: whether the first rows have one width above 1; the first's."""
    rows = filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    widths = [len(row) for row in islice(rows, 20)]
    return len({*widths}) == 1 < widths[0], widths[0]


def _refuse_repeated(path: Path, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    faults = [
        Problem(f"{path.name}, column", name[:60], "stands twice", "keep one of them")
        for name in twice
    ]
    refuse(path, faults, "columns stand twice")


def _json_rows(path: Path, text: str, start: str) -> Iterator[tuple[str, Any]]:
    """Where a row stands, and the row: of a list of objects, or of one object a line."""
    if start == "{" and text.lstrip().split("\n", 1)[0].rstrip()[-1] == "}":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"line {number}", _decoded(path, line, number)
        return
    rows = _decoded(path, text, 1)
    if isinstance(rows, dict):
        raise wrapped(path, rows)
    yield from ((f"row {number}", row) for number, row in enumerate(rows, start=1))


def _decoded(path: Path, text: str, line: int) -> Any:
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"{path.name}, line {line + error.lineno - 1}, column {error.colno}"
        way_out = "give a list of objects, or one object a line"
        raise InputError(Problem(where, None, f"no valid JSON: {error.msg}", way_out)) from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 10,000 brackets
        raise InputError(
            Problem(path.name, None, f"no usable JSON: {error}", "give a list of objects")
        ) from None


def _from_rows(path: Path, rows: Iterable[tuple[str, Any]]) -> Table:
    columns: dict[str, list[Any]] = {}
    faults, count = [], 0
    for where, row in rows:
        if not isinstance(row, dict):
            way_out = 'write {"text": …, "label": …}'
            faults.append(Problem(f"{path.name}, {where}", row, "is no object", way_out))
            continue
        if isinstance(row, RepeatedKey):
            faults.append(Problem(f"{path.name}, {where}", *repeated(row)))
        for name in row:
            columns.setdefault(name, [None] * count)
        count += 1
        for name, values in columns.items():
            values.append(row.get(name))
    refuse(path, faults, "rows cannot be used")
    return Table(columns, count)
