"""A chat in the terminal: a line asked, an answer streamed, some commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from twolevers.data.prompt import Entry
from twolevers.errors import TwoleversError
from twolevers.serving.served import ServedModel

HELP = """\
Each line is an instruction of its own, put into the prompt that the model was trained with.
/input TEXT  the text that the next instruction is about
/base        change between the tuned model and the base
/help        this
/quit        leave (or Ctrl-D)
Ctrl-C cuts an answer short."""

Open = Callable[[bool], ServedModel]
"""`open(base)`: the base model, or the tuned one; called when it is first asked."""


class Chat:
    """What has been chosen so far, and the answering of lines.

    Args:
        open_model: loads a model; it is kept.
        base: ask the base first.
        typed: someone sits there: Ctrl-C cuts an answer and not the chat.
        out: where answers and notes go.
    """

    def __init__(self, open_model: Open, *, base: bool, out: TextIO, typed: bool = False) -> None:
        self._typed = typed
        self._open, self._base, self._out = open_model, base, out
        self._models: dict[bool, ServedModel] = {}
        self._input = ""

    @property
    def model(self) -> ServedModel:
        """The one that is asked now."""
        if self._base not in self._models:
            self._models[self._base] = self._open(self._base)
        return self._models[self._base]

    def run(self, lines: Iterable[str]) -> None:
        """Answers line by line, until there are no more or one says /quit."""
        for line in lines:
            text = line.strip()
            if text in ("/quit", "/exit"):
                return
            try:
                if text:
                    self._take(text)
            except KeyboardInterrupt:
                if not self._typed:
                    raise
                self._say(" … cut")
            except TwoleversError as error:
                self._say(str(error))

    def close(self) -> None:
        for model in self._models.values():
            model.engine.close()

    def _take(self, text: str) -> None:
        command, _, rest = text.partition(" ")
        if not command.startswith("/"):
            self._answer(text)
        elif command == "/help":
            self._say(HELP)
        elif command == "/input":
            self._input = rest.strip()
        elif command == "/base":
            self._change()
        else:
            self._say(f"there is no {command}; /help says what there is")

    def _change(self) -> None:
        self._base = not self._base
        try:
            name = self.model.name
        except BaseException:  # there is no base to a folder, or none to be had; Ctrl-C
            self._base = not self._base
            raise
        self._say(f"now asking {name}")

    def _answer(self, instruction: str) -> None:
        entry = Entry(instruction, self._input, output="")
        self._input = ""
        for piece in self.model.ask(entry):
            print(piece, end="", file=self._out, flush=True)
        self._say("")

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)
