"""Entries out of a file, one at a time: JSON, JSON Lines, CSV or Parquet, told by content.

Text is UTF-8 whatever the locale, with or without a byte-order mark. What is wrong with the rows
is collected to the end of the file and raised as one error; the good rows have been handed out
by then, so whoever writes them down must be able to take that back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from twolevers.data.format import recognise
from twolevers.data.prompt import Entry
from twolevers.data.rows import READERS, RepeatedKey
from twolevers.errors import InputError, Problem

SHOWN_ROWS = 20

Fault = tuple[object, str, str]
"""A value, what is wrong with it, the way out."""


def read_entries(path: Path) -> Iterator[tuple[int, Entry]]:
    """The entries of a file with their row numbers, counted from 1 (a CSV's header is no row).

    A missing, null or blank `input` is an empty one. Other columns are ignored, but for `kind`
    (or `category`): the kind of task. Half characters (lone surrogates) become U+FFFD.

    Raises:
        InputError: the file cannot be read, holds no entries, or has rows that are no entries:
            the first 20 of them and how many there are.
    """
    found = recognise(path)
    problems: list[Problem] = []
    num_bad = number = 0
    for number, (where, row) in enumerate(READERS[found.kind](path, found.delimiter), start=1):
        if entry := _entry(row):
            yield number, entry
            continue
        num_bad += 1
        if num_bad <= SHOWN_ROWS:
            problems += [
                Problem(f"{path.name}, {where}", _short(value), what, way_out)
                for value, what, way_out in _faults(row)
            ]
    if num_bad > SHOWN_ROWS:
        what = f"{num_bad - SHOWN_ROWS} more rows are no entries ({num_bad} in all)"
        problems.append(Problem(path.name, None, what, "correct them in the same way"))
    if not number:
        problems.append(Problem(path.name, None, "holds no entries", "give at least 10"))
    if problems:
        raise InputError(problems)


def _entry(row: object) -> Entry | None:
    """A row as an entry; None where `_faults` has something to say of it."""
    if type(row) is not dict:
        return None
    instruction, given, output = row.get("instruction"), row.get("input"), row.get("output")
    if given is None:
        given = ""
    if not (isinstance(instruction, str) and isinstance(given, str) and isinstance(output, str)):
        return None
    if not (instruction.strip() and output.strip()):
        return None
    kind = row.get("kind") or row.get("category")
    return Entry(
        _whole(instruction),
        _whole(given) if given.strip() else "",
        _whole(output),
        _whole(kind) if isinstance(kind, str) else "",
    )


def _faults(row: object) -> list[Fault]:
    """All that is wrong with a row that is no entry."""
    if isinstance(row, Problem):  # the reader could not even make a row of it
        return [(row.value, row.what, row.way_out)]
    if not isinstance(row, dict):
        return [(row, f"is {_type(row)}, not an object", "write {'instruction': …, 'output': …}")]
    faults: list[Fault] = []
    if isinstance(row, RepeatedKey):
        faults.append((row.key, "this key stands twice in the row", "keep one of them"))
    for name in ("instruction", "input", "output"):
        value = row.get(name)
        if isinstance(value, str):
            if name != "input" and not value.strip():
                faults.append((value, f"{name} is empty", f"fill in its {name}, or remove the row"))
        elif value is not None:
            what = f"{name} is {_type(value)}, not text"
            faults.append((value, what, "give it as text, in quotation marks"))
        elif name != "input":
            keys = ", ".join(map(repr, row)) or "none"
            what = f"{name} is null" if name in row else f"has no {name}; its keys are {keys}"
            faults.append((None, what, f"fill in its {name}, or remove the row"))
    return faults


def _short(value: object) -> object:
    """What is shown of a value: a page of it would hide what is wrong."""
    if isinstance(value, str):
        return value if len(value) <= 60 else value[:60] + "…"
    return value if len(repr(value)) <= 60 else repr(value)[:60] + "…"


def _type(value: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    names |= {dict: "an object", str: "text", type(None): "null", bytes: "binary"}
    return names.get(type(value), f"of type {type(value).__name__}")


def _whole(text: str) -> str:
    """The text, its lone surrogates replaced: they can be neither stored nor tokenised."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
