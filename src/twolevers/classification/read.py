"""Which column holds the texts and which the labels, and every row that can't be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from unicodedata import normalize

from twolevers.classification.options import LabelledDataOptions
from twolevers.classification.table import Table, read_table, refuse
from twolevers.data.values import absent, find_column, listed, whole
from twolevers.errors import InputError, Problem, did_you_mean

TEXT_NAMES = (
    "text", "texts", "sms", "message", "messages", "sentence", "review", "content", "body",
    "document", "comment", "tweet",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "class", "category", "target", "sentiment", "intent", "topic",
)  # fmt: skip
LONGEST_LABEL = 200
"""Characters. What is longer is a text: the columns were mixed up."""


@dataclass(frozen=True)
class Labelled:
    """What a file holds: a text and a label a row, by row number (from 1, a header is no row)."""

    text_column: str
    label_column: str
    row_numbers: list[int]
    texts: list[str]
    labels: list[str]
    order: tuple[str, ...]
    """The labels there are: by number where all are whole numbers, else by alphabet."""


def read_labelled(path: Path, options: LabelledDataOptions) -> Labelled:
    """The texts and labels of a file.

    Raises:
        InputError: as `read_table`; columns that are not there or can't be told; texts or labels
            that are empty or of another type, with their row numbers; one label only.
    """
    table = read_table(path, header=options.header)
    text_column, label_column = find_columns(table, options, path.name)
    texts, labels = [], []
    faults = []
    columns = zip(table.columns[text_column], table.columns[label_column], strict=True)
    for number, (text, label) in enumerate(columns, start=1):
        found = label_text(label)
        where = f"{path.name}, row {number}"
        if not isinstance(text, str) or not text.strip():
            no_text = not absent(text) and not isinstance(text, str)
            what = f"{text_column} is {'no text' if no_text else 'empty'}"
            way_out = "give text" if no_text else "fill it in"
            faults.append(Problem(where, _short(text), what, f"{way_out}, or remove the row"))
        if not found:
            blank = absent(label) or (isinstance(label, str) and not label.strip())
            what = f"{label_column} is {'empty' if blank else 'no label'}"
            way_out = "give text or a whole number, or remove the row"
            faults.append(Problem(where, _short(label), what, way_out))
        elif len(found) > LONGEST_LABEL:
            what = f"{label_column} has {len(found):,} characters, a label at most {LONGEST_LABEL}"
            way_out = "shorten it, or name the column of the labels: --label-column"
            faults.append(Problem(where, _short(label), what, way_out))
        texts.append(whole(text) if isinstance(text, str) else "")
        labels.append(found)
    refuse(path, faults, "rows cannot be used")
    if not options.header and table.num_rows and _is_header(texts[0], labels[0]):
        what = f"names the columns {texts[0]!r} and {labels[0]!r}: it is a header"
        raise InputError(Problem(f"{path.name}, row 1", None, what, "leave out --no-header"))
    labels = _same_in_every_format(labels)
    order = sorted_labels(set(labels))
    if not table.num_rows:
        raise InputError(Problem(path.name, None, "holds no rows", "give at least 10"))
    if len(order) < 2:
        what = f"every row has the label {order[0]!r}"
        way_out = "give texts of two labels at least"
        raise InputError(Problem(f"{path.name}, {label_column}", None, what, way_out))
    numbers = list(range(1, table.num_rows + 1))
    return Labelled(text_column, label_column, numbers, texts, labels, order)


def find_columns(table: Table, options: LabelledDataOptions, file: str) -> tuple[str, str]:
    """Names of the columns of texts and of labels: as asked, else by what such columns are called.
    Of two columns the one that is left is the other.

    Raises:
        InputError: a column that is not there, or one that can't be told from the names.
    """
    names = list(table.columns)
    there = f"the columns are {listed(names)}"
    problems: list[Problem] = []

    def find(asked: str | None, known: Sequence[str], option: str) -> str | None:
        if asked is not None:
            if (column := find_column(asked, names)) is not None:
                return column
            what = f"{file} has no such column{did_you_mean(asked, names)}; {there}"
            problems.append(Problem(option, asked, what, "name one of them"))
            return None
        found = [name for name in names if name.strip().lower() in known]
        if len(found) > 1:
            what = f"could be {' or '.join(map(repr, found))}; {there}"
            problems.append(Problem(f"{file}, column", None, what, f"name it: {option}"))
        return found[0] if len(found) == 1 else None

    text = find(options.text_column, TEXT_NAMES, "--text-column")
    label = find(options.label_column, LABEL_NAMES, "--label-column")
    if not problems and len(names) == 2 and (text is None) != (label is None):
        [other] = [name for name in names if name not in (text, label)]
        text, label = text or other, label or other
    no_header = ", or give --no-header where the first row names no columns"
    if not options.header or not names:
        no_header = ""
    if not problems:
        problems += [
            Problem(
                f"{file}, column",
                None,
                f"which one holds the {what} can't be told; {there}",
                f"name it: {option}" + no_header,
            )
            for name, what, option in (
                (text, "texts", "--text-column"),
                (label, "labels", "--label-column"),
            )
            if name is None
        ]
        if text is not None and text == label:
            what = "cannot be both the texts and the labels"
            problems.append(Problem(f"{file}, column", text, what, "name two columns"))
    if problems:
        raise InputError(problems)
    assert text is not None
    assert label is not None
    return text, label


def _is_header(text: str, label: str) -> bool:
    return text.strip().lower() in TEXT_NAMES and label.lower() in LABEL_NAMES


def _short(value: Any) -> Any:
    """A value as it is shown: nothing for none, no more than its beginning."""
    if absent(value) or value == "":
        return None
    return value if len(repr(value)) <= 60 else repr(value)[:60] + "…"


def label_text(value: Any) -> str:
    """A label as text, on one line, its characters composed (NFC): text without white space around
    it, whole numbers, true or false; empty for whatever else (a Parquet column with gaps has its
    whole numbers as 1.0, and those of databases are decimals)."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and abs(value) < 2**53 and value.is_integer():
        value = int(value)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)
    if not isinstance(value, str | int):
        return ""
    return normalize("NFC", whole(" ".join(str(value).split())))


def _same_in_every_format(labels: list[str]) -> list[str]:
    """True and false as JSON and Parquet have them, where there are no other labels: CSV holds
    them as whatever wrote it does, `True` or `TRUE`."""
    lower = [label.lower() for label in labels]
    return lower if set(lower) <= {"true", "false"} else labels


def sorted_labels(labels: set[str]) -> tuple[str, ...]:
    """In order: by number where all are whole numbers, else by alphabet."""
    try:
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    except ValueError:
        return tuple(sorted(labels))
