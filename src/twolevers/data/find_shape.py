"""Which shape a file has, by its columns and by what `--map` says of them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from twolevers.data.mapping import as_written, columns_of
from twolevers.data.shapes import (
    ANSWERS,
    CHATS,
    CHOSEN,
    INPUTS,
    KINDS,
    PROMPTS,
    REJECTED,
    SYSTEMS,
    Shape,
    ShapeName,
)
from twolevers.data.values import find_column, listed
from twolevers.errors import InputError, Problem, did_you_mean

_BESIDE = {"id", "options", *KINDS, *SYSTEMS}
"""Columns that are no prompt."""


def find_shape(file: str, columns: Collection[str], mapping: Mapping[str, str]) -> Shape:
    """The shape of a file with these columns.

    Args:
        file: its name, for messages.
        columns: the header's, or the keys that its first rows have; with none, Alpaca's.
        mapping: from `parse_map`.

    Raises:
        InputError: a mapped column is not there, no shape has these columns, or it is open which
            column is meant.
    """
    if not columns and not mapping:
        return Shape("alpaca", {name: name for name in ("instruction", "input", "output")})
    problems = [
        Problem(
            f"{file}, column",
            name,
            f"is not there{did_you_mean(name, columns)}; the columns are {listed(columns)}",
            "a field inside a column cannot be named: give it a column of its own"
            if "." in name and name.split(".")[0] in columns
            else "correct --map",
        )
        for name in columns_of(mapping.values())
        if find_column(name, columns) is None
    ]
    if problems:
        raise InputError(problems)
    written = {field: as_written(column, columns) for field, column in mapping.items()}
    return _Search(file, columns, written).find()


class _Search:
    """One file's columns, and what of them is what. Names that are known are found however they
    are written: `Question`, ` answer`; as it is known, a name goes before all others."""

    def __init__(self, file: str, columns: Collection[str], mapping: Mapping[str, str]) -> None:
        self.file, self.columns, self.mapping = file, columns, mapping
        self.at: dict[str, str] = {}
        for name in columns:
            self.at.setdefault(name.strip().lower(), name)
        self.at |= {name: name for name in columns if name in self.at}

    def find(self) -> Shape:
        at, mapping = self.at, self.mapping
        instructions = "instruction" in mapping or "output" in mapping
        if "text" in mapping:
            return self._shape("text")
        if "messages" in mapping:
            return self._shape("chat")
        if {CHOSEN, REJECTED} <= {*at} and "output" not in mapping and not self._alpaca:
            return self._preferences()
        chat = None if instructions or self._alpaca else self._one_of("messages", CHATS)
        if chat:
            return self._shape("chat", messages=chat)
        pair = {
            "instruction": self._one_of("instruction", PROMPTS[:1] if self._alpaca else PROMPTS),
            "output": self._one_of("output", ANSWERS[:1] if self._alpaca else ANSWERS),
        }
        if pair["output"] and not pair["instruction"] and self._only_input_beside(pair["output"]):
            pair["instruction"] = at["input"]
        if all(pair.values()):
            return self._pair({name: str(column) for name, column in pair.items()})
        if "text" in at and not any(pair.values()):
            if "role" in at:
                raise self._a_message_a_row()
            return self._shape("text", text=at["text"])
        if any(pair.values()) and (instructions or {"instruction", "output"} & {*at}):
            raise self._missing([name for name, column in pair.items() if not column])
        raise self._unknown()

    @property
    def _alpaca(self) -> bool:
        return {"instruction", "output"} <= {*self.at, *self.mapping}

    def _only_input_beside(self, output: str) -> bool:
        """Whether the input must be the prompt: nothing else is there that could be."""
        beside = {name for name, column in self.at.items() if column != output} - _BESIDE
        return "input" not in self.mapping and beside == {"input"}

    def _one_of(self, field: str, names: tuple[str, ...]) -> str | None:
        """Which of these columns is there; None where none is."""
        if field in self.mapping:
            return self.mapping[field]
        found = [self.at[name] for name in names if name in self.at]
        if len(found) > 1:
            what = f"could be any of its columns {listed(found)}"
            way_out = f'say which: --map "{field}={found[0]}"'
            raise InputError(Problem(self.file, field, what, way_out))
        return found[0] if found else None

    def _pair(self, pair: dict[str, str]) -> Shape:
        own = all(name == column for name, column in pair.items())
        given = self._one_of("input", INPUTS[:1] if own and "input" in self.at else INPUTS)
        if own and not given:
            given = "input"  # of a later row, perhaps
        taken = given in pair.values() and "input" not in self.mapping
        extra = {"input": given} if given and not taken else {}
        return self._shape("alpaca" if own else "pairs", **pair, **extra)

    def _preferences(self) -> Shape:
        # The instruction apart is what was asked; `prompt` beside it may be rendered already.
        names = (("instruction",), PROMPTS, CHATS)
        prompt = next(filter(None, (self._one_of("instruction", found) for found in names)), None)
        chosen = self.at[CHOSEN]
        if prompt is None:
            return self._shape("preferences", messages=chosen)
        given = self._one_of("input", INPUTS)
        extra = {"input": given} if given else {}
        return self._shape("preferences", instruction=prompt, output=chosen, **extra)

    def _shape(self, shape: ShapeName, **fields: str) -> Shape:
        system = None if shape == "text" else self._one_of("system", SYSTEMS)
        kind = next((self.at[name] for name in KINDS if name in self.at), None)
        found = {**fields, **({"system": system} if system else {}), **self.mapping}
        if kind and kind not in KINDS:  # as they are known, a row has either
            found.setdefault("kind", kind)
        twice = [
            name for name in ("instruction", "input") if found.get(name) == found.get("output")
        ]
        if "output" in found and twice:
            what = f"{twice[0]} and output are the same column, {found['output']!r}"
            way_out = "which would teach to repeat; name another column in --map"
            raise InputError(Problem(self.file, None, what, way_out))
        order = ("instruction", "input", "output", "messages", "system", "text", "kind")
        return Shape(shape, {name: found[name] for name in order if name in found})

    def _missing(self, names: list[str]) -> InputError:
        what = f"is missing; the columns are {listed(self.columns)}"
        way_out = 'name it so, or say which it is: --map "{}=COLUMN"'
        return InputError(
            [Problem(f"{self.file}, column", name, what, way_out.format(name)) for name in names]
        )

    def _a_message_a_row(self) -> InputError:
        what = f"seems to hold one message a row, by its columns {listed(self.columns)}"
        way_out = (
            "join each conversation into one row's `messages`, or learn the texts one by one: "
            '--map "text=text"'
        )
        return InputError(Problem(self.file, None, what, way_out))

    def _unknown(self) -> InputError:
        near = {
            field: next((self.at[name] for name in names if name in self.at), "COLUMN")
            for field, names in (("instruction", PROMPTS), ("output", ANSWERS))
        }
        what = (
            f"no shape known has its columns, {listed(self.columns)}: not Alpaca's (instruction, "
            "output), a prompt and its answer, messages, or text"
        )
        named = " ".join(f"{field}={shlex.quote(column)}" for field, column in near.items())
        way_out = f'name them: --map "{named}"'
        if {*near.values()} == {"COLUMN"}:
            way_out += ', "messages=COLUMN" for chats or "text=COLUMN" for plain text'
        return InputError(Problem(self.file, None, what, way_out))
