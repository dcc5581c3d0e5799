"""`--map "instruction=question output=answer"`: which column holds what, in one line.

A column may also be a template of several: `"text='{title}\\n\\n{body}'"`.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import Any

from twolevers.data.values import find_column
from twolevers.errors import InputError, Problem, did_you_mean

FIELDS = ("instruction", "input", "output", "kind", "system", "messages", "text")
"""What an entry is made of. A chat's `messages` and plain `text` each stand alone."""

_WAY_OUT = 'write it as "instruction=question output=answer"; the fields are ' + ", ".join(FIELDS)

_QUOTED = "input='my notes'"


def parse_map(text: str | None) -> dict[str, str]:
    """Field to column or template, sorted by field; empty where nothing is mapped.

    Raises:
        InputError: every part of it that means nothing.
    """
    if text is None:
        return {}
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise InputError(Problem("--map", text, str(error).lower(), _WAY_OUT)) from None
    found: dict[str, str] = {}
    problems = [] if parts else [Problem("--map", text, "names nothing", _WAY_OUT)]
    for part in parts:
        field, equals, column = part.partition("=")
        if not equals or not column:
            what = "is no field=column"
        elif field not in FIELDS:
            what = f"no such field{did_you_mean(field, FIELDS)}"
        elif field in found:
            what = f"{field} is mapped twice"
        else:
            what = "" if _columns(column) else "is no template: its braces name no columns"
        if what:
            way_out = _WAY_OUT if equals else f"{_WAY_OUT}; quote a name that has spaces: {_QUOTED}"
            problems.append(Problem("--map", part, what, way_out))
        found[field] = column
    alone = [field for field in ("messages", "text") if field in found]
    others: list[str] = [name for name in ("instruction", "input", "output") if name in found]
    others += ["system"] if {"text", "system"} <= {*found} else []
    if alone and (others or len(alone) > 1):
        what = f"{' and '.join((*alone, *others))} belong to different shapes"
        problems.append(Problem("--map", text, what, "map the fields of one of them"))
    twice = [name for name in ("instruction", "input") if found.get(name) == found.get("output")]
    if "output" in found and twice:
        what = f"{twice[0]} and output are the same column, which would teach to repeat"
        problems.append(Problem("--map", text, what, "name the column of the answers as output"))
    if problems:
        raise InputError(problems)
    return dict(sorted(found.items()))


def _columns(column: str) -> list[str]:
    """The columns that one side of the map reads: itself, or those of its template."""
    return Template(column).columns if "{" in column else [column]


def columns_of(columns: Iterable[str]) -> list[str]:
    """All columns that columns and templates read, each once."""
    return list(dict.fromkeys(name for column in columns for name in _columns(column)))


def as_written(column: str, columns: Collection[str]) -> str:
    """A column or template with each name as the file's columns have it, found by `find_column`."""
    if "{" not in column:
        return find_column(column, columns) or column
    return "".join(
        literal.replace("{", "{{").replace("}", "}}")
        + (f"{{{find_column(name, columns) or name}}}" if name else "")
        for literal, name in Template(column).parts
    )


@dataclass(frozen=True)
class Template:
    """Text with columns in braces; `{{` is a brace, `\\n` a line break."""

    text: str

    @cached_property
    def parts(self) -> list[tuple[str, str | None]]:
        """Literal text and the column behind it; empty where the braces don't match, or hold
        nothing or more than a name."""
        try:
            parts = [*Formatter().parse(self.text.replace("\\n", "\n"))]
        except ValueError:
            return []
        if any(form or conversion or name == "" for _, name, form, conversion in parts):
            return []
        return [(literal, name) for literal, name, _, _ in parts]

    @property
    def columns(self) -> list[str]:
        return [name for _, name in self.parts if name]

    def fill(self, row: Mapping[str, Any]) -> object:
        """The text for a row, a missing column as empty; the first value that is not text; None
        where no column has any."""
        texts: list[str] = []
        filled = False
        for literal, name in self.parts:
            value = row.get(name) if name else ""
            if value is not None and not isinstance(value, str):
                return value
            filled = filled or bool(value and value.strip())
            texts += [literal, value or ""]
        return "".join(texts) if filled else None
