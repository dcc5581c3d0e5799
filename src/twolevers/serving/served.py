"""A model that can be asked: its engine, and how prompts for it are made."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from twolevers.data.prompt import Entry, PromptStyle
from twolevers.data.tokenizer import get_tokenizer
from twolevers.errors import InputError, Problem
from twolevers.options import GenerationOptions
from twolevers.serving.engine import Engine, Request


@dataclass(frozen=True)
class ServedModel:
    """A model under the name that it is asked by."""

    name: str
    engine: Engine
    style: PromptStyle
    """The one that it was trained with."""
    options: GenerationOptions
    """How it is asked unless told otherwise: as its run was."""

    def request(self, entry: Entry, *, seed: int | None = None) -> Request:
        """An entry for the engine; its answer comes without white space at both ends.

        Args:
            seed: None: another one every time.

        Raises:
            InputError: an empty instruction.
        """
        if not entry.instruction.strip():
            raise InputError(Problem("instruction", None, "is empty", "say what to do"))
        return Request(
            prompt=tuple(get_tokenizer().encode(self.style.render(entry)[0])),
            options=self.options,
            seed=secrets.randbits(32) if seed is None else seed,
            strip=True,
        )

    def ask(self, entry: Entry, *, seed: int | None = None) -> Iterator[str]:
        """The answer's text as it comes.

        Raises:
            InputError: an empty instruction, or a prompt that leaves no room for an answer.
            FullError, ClosingError, CutError: as `Engine.stream`.
        """
        return self.engine.stream(self.request(entry, seed=seed))
