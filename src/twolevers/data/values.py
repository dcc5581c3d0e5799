"""Values as they lie in files: what kind of thing one is, and text that can be kept."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice
from typing import Any

Fault = tuple[object, str, str]
"""A value, what is wrong with it, the way out."""


class RepeatedKey(dict[str, Any]):
    """An object that has a key twice. JSON allows it; which value is meant, nobody knows."""

    key = ""


def repeated(value: RepeatedKey) -> Fault:
    """What is said of one."""
    return value.key, "this key stands twice in the row", "keep one of them"


def type_name(value: object) -> str:
    """`a number`, `a list`: in the words of who wrote the file."""
    names = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    names |= {dict: "an object", str: "text", type(None): "null", bytes: "binary"}
    return names.get(type(value), f"of type {type(value).__name__}")


def absent(value: object) -> bool:
    """Whether there is no value: null, or the NaN that pandas writes where nothing is."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def listed(names: Collection[str]) -> str:
    """`'a', 'b'`: of many the first 20, of long ones the beginning; `none` where there are none."""
    texts = [repr(name if len(name) <= 60 else name[:60] + "…") for name in islice(names, 20)]
    more = [f"{len(names) - 20:,} more"] if len(names) > 20 else []
    return ", ".join([*texts, *more]) or "none"


def find_column(name: str, columns: Collection[str]) -> str | None:
    """The column of that name; else the only one that differs in case or white space around it."""
    if name in columns:
        return name
    alike = [column for column in columns if column.strip().lower() == name.strip().lower()]
    return alike[0] if len(alike) == 1 else None


def whole(text: str) -> str:
    """The text, its lone surrogates replaced: they can be neither stored nor tokenised."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
