"""The rows of a file as mappings, for each format. What a row must hold is decided in `shapes`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from twolevers.data.format import SKIP_BOM
from twolevers.data.values import RepeatedKey
from twolevers.errors import InputError, Problem

_BATCH_ROWS = 4096
_CSV_BLOCK_BYTES = 16 << 20
"""A row longer than this cannot be read from CSV."""

Rows = Iterator[tuple[str, Any]]
"""Where a row stands (`row 3 (line 5)`), and the row: a mapping if it is well, a `Problem` if it
could not be made out."""


@dataclass(frozen=True)
class Source:
    """A file, and what is known of its rows before any is read."""

    path: Path
    delimiter: str
    quoted: bool
    """Whether quotation marks hold a CSV's cells together."""
    names: Collection[str]
    """Fields of entries: an object that has one of them is a row, not a file's wrapping."""
    choose: Callable[[Sequence[str]], Sequence[str]]
    """The columns that are needed, where a file's beginning says which it has."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        row = RepeatedKey(row)
        row.key = next(key for key in row if keys.count(key) > 1)
    return row


DECODER = json.JSONDecoder(object_pairs_hook=_object)
"""JSON's, but that an object with a key twice is told."""


def _json(source: Source) -> Rows:
    """A JSON array of objects. Read whole: the standard library knows no other way."""
    path = source.path
    try:
        value = DECODER.decode(path.read_text(encoding=SKIP_BOM))
    except json.JSONDecodeError as error:
        where = f"{path.name}, line {error.lineno}, column {error.colno}"
        what, way_out = f"no valid JSON: {error.msg}", "correct it there or just before"
        if error.msg == "Extra data":
            way_out = "write all entries as one list, [{…}, {…}], or one object a line, no commas"
        raise InputError(Problem(where, None, what, way_out)) from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 10,000 brackets
        raise InputError(
            Problem(path.name, None, f"no usable JSON: {error}", "give a list of entries")
        ) from None
    if isinstance(value, dict) and not any(name in value for name in source.names):
        raise wrapped(path, value)
    rows = value if isinstance(value, list) else [value]
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", row


def wrapped(path: Path, value: dict[str, Any]) -> InputError:
    """What is said of a file that holds one object, and no row."""
    lists = {key: len(inner) for key, inner in value.items() if isinstance(inner, list)}
    what = "holds one object, not a list of entries"
    way_out = "give a list of entries"
    if lists:
        way_out = f"save the list under {max(lists, key=lambda key: lists[key])!r} alone"
    return InputError(Problem(path.name, None, what, way_out))


def _json_lines(source: Source) -> Rows:
    """One JSON object a line; blank lines are skipped."""
    number = 0
    with source.path.open(encoding=SKIP_BOM) as file:
        for line_number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            number += 1
            row: object
            try:
                row = DECODER.decode(line)
            except json.JSONDecodeError as error:
                what = f"no valid JSON at column {error.colno}: {error.msg}"
                row = Problem("", line.rstrip("\n")[:60], what, "write one object a line")
            except (ValueError, RecursionError) as error:
                row = Problem("", line[:60], f"no usable JSON: {error}", "write one object a line")
            yield f"row {number} (line {line_number})", row


def _csv(source: Source) -> Rows:
    """CSV with a header. Every column is text: `01` stays `01`, `NA` stays `NA`."""
    path = source.path
    broken: dict[int, str] = {}

    def note(row: Any) -> str:
        what = f"has {row.actual_columns} columns where the header has {row.expected_columns}"
        broken[row.number - 1] = f"{what}: {row.text[:60]!r}"
        return "skip"

    try:
        header = _open_csv(source, lambda _: "skip", None).schema.names
        names = _needed(source, header)
        with _open_csv(source, note, names) as reader:
            number = 0
            for batch in reader:
                for row in _rows_of(batch):
                    number += 1
                    while number in broken:
                        number += 1
                    yield f"row {number}", row
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return
        if "straddling" in str(error):
            what = (
                f"a row is longer than {_CSV_BLOCK_BYTES} bytes, or a quotation mark is not closed"
            )
            raise InputError(Problem(path.name, None, what, "give JSON Lines instead")) from None
        raise _unreadable(path, "CSV", error) from None
    for number, what in broken.items():
        way_out = "put what holds a delimiter or a line break in quotation marks"
        yield f"row {number}", Problem("", None, what, way_out)


def _open_csv(source: Source, on_invalid_row: Callable[[Any], str], names: list[str] | None) -> Any:
    """pyarrow's reader, in blocks: of the columns `names`, or of all that there are."""
    size = max(1 << 20, min(_CSV_BLOCK_BYTES, source.path.stat().st_size))
    return pa.csv.open_csv(
        source.path,
        # Only a single thread knows the number of a row that is broken.
        read_options=pa.csv.ReadOptions(block_size=size, use_threads=False),
        parse_options=pa.csv.ParseOptions(
            delimiter=source.delimiter,
            quote_char='"' if source.quoted else False,
            newlines_in_values=source.quoted,
            invalid_row_handler=on_invalid_row,
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names or (), pa.string()),
            strings_can_be_null=False,
            include_columns=names,
        ),
    )


def _parquet(source: Source) -> Rows:
    path = source.path
    try:
        with pa.parquet.ParquetFile(path, memory_map=True) as file:
            needed = _needed(source, file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=needed):
                for row in _rows_of(batch):
                    number += 1
                    yield f"row {number}", row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise _unreadable(path, "Parquet", error) from None


def _rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = [column.to_pylist() for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


def _needed(source: Source, names: list[str]) -> list[str]:
    """The columns to read.

    Raises:
        InputError: one that is needed stands twice.
    """
    columns = source.choose(names)
    problems = [
        Problem(f"{source.path.name}, column", name, "stands twice", "keep one of them")
        for name in columns
        if names.count(name) > 1
    ]
    if problems:
        raise InputError(problems)
    return [name for name in columns if name in names]


def _unreadable(path: Path, kind: str, error: Exception) -> InputError:
    return InputError(
        Problem(path.name, None, f"cannot be read as {kind}: {error}", "write the file anew")
    )


READERS: dict[str, Callable[[Source], Rows]] = {
    "json": _json,
    "jsonl": _json_lines,
    "csv": _csv,
    "parquet": _parquet,
}
