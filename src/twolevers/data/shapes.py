"""The shapes that data comes in, told by its fields, and how a row of each becomes an entry.

| shape       | fields                                                                  |
| ----------- | ----------------------------------------------------------------------- |
| alpaca      | `instruction` and `output`; `input` may be there                        |
| preferences | `chosen` and `rejected`: the chosen answer is learned, the other unread  |
| chat        | `messages` (or `conversations`): see `chat`                              |
| pairs       | a prompt and its answer by other names (`PROMPTS`, `ANSWERS`, `INPUTS`)  |
| text        | `text` alone: no prompt, so that all of it carries loss                 |

The prompt and the answer of pairs and preferences may be messages too: see `chat.conversation`.
The first of these that the fields allow is taken; other names are given by `--map`, which also
decides where several would do. `system` (or `system_prompt`) is a system message in all but text.
`kind` (or `category`) is the kind of task in all of them, `options`
a list of the answers to choose from. A null, and a NaN, is as good as no field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from twolevers.data.chat import conversation, read_turns
from twolevers.data.mapping import Template, columns_of
from twolevers.data.prompt import Entry
from twolevers.data.values import Fault, RepeatedKey, absent, listed, repeated, type_name, whole
from twolevers.errors import Problem

PROMPTS = ("instruction", "prompt", "question", "query")
ANSWERS = ("output", "response", "completion", "answer")
INPUTS = ("input", "context")
SYSTEMS = ("system", "system_prompt")
CHATS = ("messages", "conversations", "conversation")
CHOSEN, REJECTED = "chosen", "rejected"
OPTIONS = "options"
KINDS = ("kind", "category")
KNOWN = {*PROMPTS, *ANSWERS, *CHATS, CHOSEN, REJECTED, "text"}
"""Fields by which a shape is told."""

ShapeName = Literal["alpaca", "preferences", "chat", "pairs", "text"]


@dataclass(frozen=True)
class Shape:
    """How the rows of a file become entries.

    `fields` says for each field of `mapping.FIELDS` which column, or template of columns, it is.
    """

    name: ShapeName
    fields: Mapping[str, str]

    def __str__(self) -> str:
        """`pairs (instruction=question, output=answer)`."""
        fields = (
            name if name == column else f"{name}={column}" for name, column in self.fields.items()
        )
        return f"{self.name} ({', '.join(fields)})"

    @cached_property
    def columns(self) -> list[str]:
        """The columns to read."""
        kinds = [] if "kind" in self.fields else KINDS
        return columns_of([*self.fields.values(), *kinds, OPTIONS])

    @cached_property
    def _templates(self) -> dict[str, Template]:
        return {column: Template(column) for column in self.fields.values() if "{" in column}

    def entry(self, row: object) -> Entry | None:
        """A row as an entry; None where `faults` has something to say of it.

        A missing, null or blank `input` is an empty one. Half characters become U+FFFD.
        """
        if type(row) is not dict:
            return None
        row = self._filled(row)
        fields = self.fields
        messages = self._messages(row)
        given = self._input(row)
        if given is None:
            return None
        if messages is not None or "messages" in fields:
            return self._chat(row, messages, given)
        output = row.get(fields["output"] if "output" in fields else fields["text"])
        if not (isinstance(output, str) and output.strip()):
            return None
        if self.name == "text":
            return Entry("", "", whole(output), self._kind(row))
        instruction = row.get(fields["instruction"])
        if not (isinstance(instruction, str) and instruction.strip()):
            return None
        earlier = self._system(row) if "system" in fields else ()
        if earlier is None:
            return None
        return Entry(
            whole(instruction),
            given,
            whole(output),
            self._kind(row),
            earlier,
            _options(row),
        )

    def faults(self, row: object) -> list[Fault]:
        """All that is wrong with a row that is no entry."""
        if isinstance(row, Problem):  # the reader could not even make a row of it
            return [(row.value, row.what, row.way_out)]
        if not isinstance(row, dict):
            shape = ", ".join(f"{self.fields[name]!r}: …" for name in self._needed)
            return [(row, f"is {type_name(row)}, not an object", f"write {{{shape}}}")]
        faults = [repeated(row)] if isinstance(row, RepeatedKey) else []
        row = self._filled(row)
        messages = self._messages(row)
        missing: list[str] = []
        if messages is not None:
            faults += read_turns(messages)[1]
        for name in (name for name in self.fields if name != "kind"):
            value, column = row.get(self.fields[name]), self.fields[name]
            needed = name in self._needed
            if messages is not None and needed:
                continue
            if absent(value):
                if needed and column in row:
                    way_out = f"fill in its {column}, or remove the row"
                    empty = "null" if value is None else "NaN, which stands for nothing"
                    faults.append((None, f"{column} is {empty}", way_out))
                elif needed:
                    missing.append(column)
            elif not isinstance(value, str):
                part = f"a column of {column!r}" if "{" in column else column
                what = f"{part} is {type_name(value)}, not text"
                faults.append((value, what, "give it as text, in quotation marks"))
            elif needed and not value.strip():
                way_out = f"fill in its {column}, or remove the row"
                faults.append((value, f"{column} is empty", way_out))
        if missing:
            what = f"has no {' and no '.join(missing)}; its keys are {listed(row)}"
            way_out = f"fill in its {' and '.join(missing)}, or remove the row"
            faults.append((None, what, way_out))
        return faults

    @cached_property
    def _needed(self) -> list[str]:
        return [n for n in ("instruction", "output", "messages", "text") if n in self.fields]

    def _filled(self, row: dict[str, Any]) -> dict[str, Any]:
        if not self._templates:
            return row
        return row | {text: template.fill(row) for text, template in self._templates.items()}

    def _messages(self, row: Mapping[str, Any]) -> object:
        """The row's messages; None where it has a prompt and an answer in texts."""
        fields = self.fields
        if "messages" in fields:
            value = row.get(fields["messages"])
            if self.name != "preferences":
                return value
            answer = [{"role": "assistant", "content": value}] if isinstance(value, str) else value
            return conversation(None, value) or answer
        if self.name not in ("pairs", "preferences"):
            return None
        prompt, answer = row.get(fields["instruction"]), row.get(fields["output"])
        if self.name == "pairs" and not isinstance(prompt, list) and not isinstance(answer, list):
            return None
        return conversation(prompt, answer)

    def _input(self, row: Mapping[str, Any]) -> str | None:
        """A row's input, empty where it has none; None where it is no text."""
        value = row.get(self.fields["input"]) if "input" in self.fields else None
        if absent(value):
            return ""
        if not isinstance(value, str):
            return None
        return whole(value) if value.strip() else ""

    def _chat(self, row: Mapping[str, Any], messages: object, given: str) -> Entry | None:
        turns, faults = read_turns(messages)
        system = self._system(row) if "system" in self.fields else ()
        if faults or system is None:
            return None
        if turns[0][0] != "system":
            turns = [*system, *turns]
        (_, instruction), (_, output) = turns[-2:]
        return Entry(instruction, given, output, self._kind(row), tuple(turns[:-2]), _options(row))

    def _system(self, row: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | None:
        """A row's system message as an earlier turn; None where it is no text."""
        value = row.get(self.fields["system"])
        if absent(value) or (isinstance(value, str) and not value.strip()):
            return ()
        return (("system", whole(value)),) if isinstance(value, str) else None

    def _kind(self, row: Mapping[str, Any]) -> str:
        if "kind" in self.fields:
            kind = row.get(self.fields["kind"])
        else:
            kind = row.get("kind") or row.get("category")
        return whole(kind) if isinstance(kind, str) else ""


def _options(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts of the row's list of options, which a CSV has as JSON, or of ARC's object of texts
    and labels; none where it is no such."""
    value = row.get(OPTIONS)
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, dict):
        value = value.get("text")
    if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return ()
    return tuple(whole(one) for one in value if one.strip())
