"""What a file is, told by its content and never by its suffix."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from twolevers.errors import InputError, Problem

SKIP_BOM = "utf-8-sig"
"""UTF-8, with or without a byte-order mark."""

_TAKEN = "give JSON, JSON Lines, CSV or Parquet"
_FOREIGN = {
    b"\x1f\x8b": ("compressed with gzip", "decompress it first: gunzip"),
    b"PK\x03\x04": ("a zip archive (or an Excel sheet)", f"unpack it, or save as CSV; {_TAKEN}"),
    b"BZh": ("compressed with bzip2", "decompress it first: bunzip2"),
    b"\xfd7zXZ": ("compressed with xz", "decompress it first: unxz"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "decompress it first: unzstd"),
    b"ARROW1": ("an Arrow file", "save it as Parquet"),
    b"\xff\xff\xff\xff": ("an Arrow stream", "save it as Parquet"),
    b"%PDF": ("a PDF", _TAKEN),
    b"SQLite format 3\0": ("a database", _TAKEN),
    b"version https://git-lfs": ("a pointer to a file in Git LFS", "fetch it: git lfs pull"),
    # UTF-32's mark begins as UTF-16's does, so it comes first.
    codecs.BOM_UTF32_LE: ("text in UTF-32", "save it as UTF-8"),
    codecs.BOM_UTF32_BE: ("text in UTF-32", "save it as UTF-8"),
    codecs.BOM_UTF16_LE: ("text in UTF-16", "save it as UTF-8"),
    codecs.BOM_UTF16_BE: ("text in UTF-16", "save it as UTF-8"),
}
_HEADER_CHARS = 100_000
"""Of a longer first line no more is looked at."""
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')


class Format(NamedTuple):
    """A format, and of CSV what stands between two columns (a tab for TSV) and whether quotation
    marks hold cells together."""

    kind: Literal["json", "jsonl", "csv", "parquet"]
    delimiter: str = ","
    quoted: bool = True


def recognise(path: Path, names: Collection[str], *, has_columns: bool = False) -> Format:
    """The format of a file.

    Args:
        names: fields of entries, by which a CSV's header is told from other text.
        has_columns: whether its columns are known to be named by others than these.

    Raises:
        InputError: it is none of the four, empty, not UTF-8, or cannot be opened.
    """
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "there is no such file"
            if path.exists() and not path.is_dir():
                what = "is no ordinary file"
            raise InputError(Problem("dataset", str(path), what, "give the path of a file"))
        with path.open("rb") as file:
            start = file.read(4096)
        if start.startswith(b"PAR1"):
            return Format("parquet")
        refuse_foreign(path, start)
        return _text_format(path, _check_text(path), names, has_columns)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            Problem("dataset", str(path), f"cannot be read: {reason}", "check its permissions")
        ) from None


def refuse_foreign(path: Path, start: bytes) -> None:
    """Raises InputError for a file that begins as formats do that are not read, and says which."""
    for mark, (what, way_out) in _FOREIGN.items():
        if start.startswith(mark):
            raise InputError(Problem(path.name, None, f"is {what}", way_out))


def has_stray_quotes(lines: Iterable[str]) -> bool:
    """Whether the quotation marks of tab-separated text are part of its cells: a cell begins with
    one that holds nothing together, and no cell holds a line break, as every line has the same
    number of tabs. Read with quoting, rows of such a file (UCI's SMS Spam Collection is one) would
    run into each other.
    """
    stray, width = False, 0
    for line in lines:
        cells = line.rstrip("\n").split("\t")
        if cells == [""]:
            continue
        width = width or len(cells)
        if len(cells) != width:
            return False
        stray = stray or any(cell[:1] == '"' and not _QUOTED.fullmatch(cell) for cell in cells)
    return stray


def csv_rows(
    file: str, lines: Iterable[str], delimiter: str, quoted: bool
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV and the line that each begins in; blank lines are skipped.

    Args:
        file: its name, for messages.
        quoted: whether quotation marks hold cells together.

    Raises:
        InputError: a quotation mark that closes nothing, or is not closed.
    """
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )
    begin = 1
    try:
        for row in reader:
            if row:
                yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        what = f"no valid CSV in the row that begins here: {error}"
        way_out = "close each quotation mark, and write one that is text twice, in quotation marks"
        raise InputError(Problem(f"{file}, line {begin}", None, what, way_out)) from None


def _check_text(path: Path) -> str:
    """The first line that is not blank, after the whole file proved to be UTF-8 text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = lines = 0
    with path.open("rb") as file:
        while True:
            chunk = file.read(1 << 20)
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                at = done - pending + error.start
                line = lines + chunk[: max(error.start - pending, 0)].count(b"\n") + 1
                what = f"is not UTF-8: byte {at + 1}, in line {line}"
                raise InputError(Problem(path.name, None, what, "save it as UTF-8")) from None
            if b"\0" in chunk:
                at = done + chunk.index(b"\0") + 1
                what = f"is binary or UTF-16: byte {at} is zero"
                raise InputError(Problem(path.name, None, what, f"save it as UTF-8; {_TAKEN}"))
            if not chunk:
                break
            done += len(chunk)
            lines += chunk.count(b"\n")
    with path.open(encoding=SKIP_BOM) as text:
        for line_text in text:
            if line_text.strip():
                return line_text.strip()
    raise InputError(Problem(path.name, None, "the file is empty", _TAKEN))


def _text_format(path: Path, line: str, names: Collection[str], has_columns: bool) -> Format:
    if line[0] == "[":
        return Format("json")
    if line[0] == "{":
        return Format("jsonl" if _is_json_lines(path, line, names) else "json")
    if line[0] == "<":
        what = f"looks like a web page: it begins with {line[:40]!r}"
        raise InputError(Problem(path.name, None, what, "download the data itself, not its page"))
    known = {name.lower() for name in names}
    header = line[:_HEADER_CHARS]
    headers = {mark: next(csv.reader([header], delimiter=mark)) for mark in ",\t;|"}
    found = {
        mark: sum(name.strip().lower() in known for name in header)
        for mark, header in headers.items()
    }
    if has_columns and not any(found.values()):
        found = {mark: len(header) - 1 for mark, header in headers.items()}
    if any(found.values()):
        delimiter = max(found, key=lambda mark: found[mark])
        quoted = True
        if delimiter == "\t":
            with path.open(encoding=SKIP_BOM) as lines:
                quoted = not has_stray_quotes(lines)
        with path.open(encoding=SKIP_BOM, newline="") as lines:
            for _ in csv_rows(path.name, lines, delimiter, quoted):
                pass  # pyarrow takes a quotation mark in a wrong place for the text of its rows
        return Format("csv", delimiter, quoted)
    what = f"is none of the formats known: it begins with {line[:40]!r}"
    way_out = (
        f"{_TAKEN}; a CSV's first line names its columns: instruction and output, or others that "
        '--map "instruction=COLUMN output=COLUMN" names'
    )
    raise InputError(Problem(path.name, None, what, way_out))


def _is_json_lines(path: Path, line: str, names: Collection[str]) -> bool:
    """Whether a file that begins with an object has one a line, or is one object over many."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        # Line 1 may be broken or the object may go on: it does where the line is left open.
        return line[-1] == "}"
    with path.open(encoding=SKIP_BOM) as text:
        more = [more for more, _ in zip((t for t in text if t.strip()), range(2), strict=False)]
    return len(more) > 1 or any(name in json.loads(line) for name in names)
