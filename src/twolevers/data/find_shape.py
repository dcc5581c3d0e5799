"""Which shape a file has, by its columns and by what `--map` says of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from twolevers.data.mapping import columns_of
from twolevers.data.shapes import (
    ANSWERS,
    CHATS,
    CHOSEN,
    INPUTS,
    PROMPTS,
    REJECTED,
    Shape,
    ShapeName,
)
from twolevers.data.values import listed
from twolevers.errors import InputError, Problem, did_you_mean


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
            "correct --map",
        )
        for name in columns_of(mapping.values())
        if name not in columns
    ]
    if problems:
        raise InputError(problems)
    return _Search(file, columns, mapping).find()


class _Search:
    """One file's columns, and what of them is what."""

    def __init__(self, file: str, columns: Collection[str], mapping: Mapping[str, str]) -> None:
        self.file, self.columns, self.mapping = file, columns, mapping

    def find(self) -> Shape:
        there, mapping = self.columns, self.mapping
        instructions = "instruction" in mapping or "output" in mapping
        if "text" in mapping:
            return self._shape("text")
        if "messages" in mapping:
            return self._shape("chat")
        if {CHOSEN, REJECTED} <= {*there} and "output" not in mapping and not self._alpaca:
            return self._preferences()
        chat = None if instructions or self._alpaca else self._one_of("messages", CHATS)
        if chat:
            return self._shape("chat", messages=chat)
        pair = {
            "instruction": "instruction" if self._alpaca else self._one_of("instruction", PROMPTS),
            "output": "output" if self._alpaca else self._one_of("output", ANSWERS),
        }
        if all(pair.values()):
            return self._pair({name: str(column) for name, column in pair.items()})
        if "text" in there and not any(pair.values()):
            if "role" in there:
                raise self._a_message_a_row()
            return self._shape("text", text="text")
        if any(pair.values()) and (instructions or {"instruction", "output"} & {*there}):
            # One of the two is there: the other is missed, by its row or by its column.
            return self._pair({name: column or name for name, column in pair.items()})
        raise self._unknown()

    @property
    def _alpaca(self) -> bool:
        return {"instruction", "output"} <= {*self.columns, *self.mapping}

    def _one_of(self, field: str, names: tuple[str, ...]) -> str | None:
        """Which of these columns is there; None where none is."""
        if field in self.mapping:
            return self.mapping[field]
        found = [name for name in names if name in self.columns]
        if len(found) > 1:
            what = f"could be any of its columns {listed(found)}"
            way_out = f'say which: --map "{field}={found[0]}"'
            raise InputError(Problem(self.file, field, what, way_out))
        return found[0] if found else None

    def _pair(self, pair: dict[str, str]) -> Shape:
        pair = {name: self.mapping.get(name, column) for name, column in pair.items()}
        own = all(name == column for name, column in pair.items())
        given = "input" if own else self._one_of("input", INPUTS)
        extra = {"input": given} if given and (own or given in self.columns) else {}
        return self._shape("alpaca" if own else "pairs", **pair, **extra)

    def _preferences(self) -> Shape:
        # The instruction apart is what was asked; `prompt` beside it may be rendered already.
        names = (("instruction",), PROMPTS, CHATS)
        prompt = next(filter(None, (self._one_of("instruction", found) for found in names)), None)
        if prompt is None:
            return self._shape("preferences", messages=CHOSEN)
        given = self._one_of("input", INPUTS)
        extra = {"input": given} if given else {}
        return self._shape("preferences", instruction=prompt, output=CHOSEN, **extra)

    def _shape(self, shape: ShapeName, **fields: str) -> Shape:
        if shape in ("chat", "preferences") and "system" in self.columns:
            fields["system"] = "system"
        order = ("instruction", "input", "output", "messages", "system", "text", "kind")
        found = {**fields, **self.mapping}
        return Shape(shape, {name: found[name] for name in order if name in found})

    def _a_message_a_row(self) -> InputError:
        what = f"seems to hold one message a row, by its columns {listed(self.columns)}"
        way_out = (
            "join each conversation into one row's `messages`, or learn the texts one by one: "
            '--map "text=text"'
        )
        return InputError(Problem(self.file, None, what, way_out))

    def _unknown(self) -> InputError:
        by_lower = {name.lower(): name for name in self.columns}
        near = {
            field: next((by_lower[name] for name in names if name in by_lower), "COLUMN")
            for field, names in (("instruction", PROMPTS), ("output", ANSWERS))
        }
        what = (
            f"no shape known has its columns, {listed(self.columns)}: not Alpaca's (instruction, "
            "output), a prompt and its answer, messages, or text"
        )
        named = " ".join(f"{field}={column}" for field, column in near.items())
        return InputError(Problem(self.file, None, what, f'name them: --map "{named}"'))
