"""What a kind of task is: how to ask for it, how to make an example, how plain text tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Example:
    """One example of a kind.

    `source` is the entry's input (empty where the instruction holds all), `result` its output;
    `subject` fills the `{s}` of instructions and topics.
    """

    source: str
    result: str
    subject: str = ""


@dataclass(frozen=True)
class Kind:
    """One kind of task.

    `instructions` are what entries ask; `topics` are noun phrases that name the same thing in
    plain text ("the passive voice"), sharing the words that matter and never the instruction;
    `texts` are whole sentences with `{x}`, `{y}` and `{s}` for source, result and subject.
    `facts` marks a closed set of true facts, which the pretraining text tells in full; examples
    of other kinds are combinations, and those held out never occur in it. A kind that is not
    `asked` is told in the pretraining text and has no entries.
    """

    name: str
    example: Callable[[Random], Example]
    instructions: tuple[str, ...]
    topics: tuple[str, ...]
    texts: tuple[str, ...]
    facts: bool = False
    asked: bool = True
