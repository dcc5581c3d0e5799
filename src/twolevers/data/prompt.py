"""The one place that renders a prompt: training, generation and evaluation all call it.

Adding a style is writing one function and naming it in `PROMPT_STYLES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twolevers.errors import InputError, Problem, did_you_mean

Turn = tuple[str, str]
"""Who speaks (`system`, `user` or `assistant`), and what."""


@dataclass(frozen=True)
class Entry:
    """One instruction and the answer wanted. `input` and all behind `output` may be empty.

    Without an instruction it is plain text: `output` is the text, and there is no prompt.
    """

    instruction: str
    input: str
    output: str
    kind: str = ""
    earlier: tuple[Turn, ...] = ()
    """What was said before the instruction; a system message comes first."""
    options: tuple[str, ...] = ()
    """The answers that there are to choose from, where the data says; in no prompt."""

    @property
    def system_and_turns(self) -> tuple[str, tuple[Turn, ...]]:
        """The system message, empty where there is none, and the turns behind it."""
        if self.earlier and self.earlier[0][0] == "system":
            return self.earlier[0][1], self.earlier[1:]
        return "", self.earlier


ALPACA_PREAMBLE = (
    "Below is an instruction that describes a task. "
    "Write a response that appropriately completes the request."
)
_ALPACA_HEADINGS = {"user": "Instruction", "assistant": "Response"}


def alpaca(entry: Entry) -> str:
    """Stanford Alpaca's prompt as chapter 7 has it: one preamble, with and without an input.

    A chat's earlier turns stand between the two under the same headings; its system message
    takes the preamble's place.
    """
    given = f"\n\n### Input:\n{entry.input}" if entry.input else ""
    preamble, earlier = ALPACA_PREAMBLE, ""
    if entry.earlier:
        system, turns = entry.system_and_turns
        preamble = system or preamble
        earlier = "".join(f"### {_ALPACA_HEADINGS[role]}:\n{text}\n\n" for role, text in turns)
    return f"{preamble}\n\n{earlier}### Instruction:\n{entry.instruction}{given}\n\n### Response:\n"


def phi3(entry: Entry) -> str:
    """Phi-3's prompt as the solution to the chapter's exercise 7.1 writes it.

    Microsoft's own template ends the user's turn with `<|end|>`; the exercise leaves it out and
    puts a colon behind the assistant's mark, and so does this, for a chat's earlier turns too.
    """
    given = f"\n{entry.input}" if entry.input else ""
    marks = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>:"}
    earlier = "".join(f"{marks[role]}\n{text}\n" for role, text in entry.earlier)
    return f"{earlier}<|user|>\n{entry.instruction}{given}\n<|assistant|>:\n"


@dataclass(frozen=True)
class PromptStyle:
    """A way to put an entry to the model.

    `prompt` renders all that comes before the answer and ends with `response_marker`, by which
    the model knows that the answer begins.
    """

    name: str
    description: str
    prompt: Callable[[Entry], str]
    response_marker: str

    def render(self, entry: Entry) -> tuple[str, str]:
        """The prompt and the response. The row is their tokens and the end-of-text token.

        Plain text has no prompt, whatever the style: its prompt is empty.

        Raises:
            InputError: the prompt doesn't end with the style's response marker.
        """
        if not entry.instruction:
            return "", entry.output
        prompt = self.prompt(entry)
        if not self.response_marker or not prompt.endswith(self.response_marker):
            raise InputError(
                Problem(
                    f"prompt style {self.name}: response marker",
                    self.response_marker,
                    f"the prompt does not end with it, but with {prompt[-30:]!r}",
                    "end the style's prompt with its marker, or name the marker that ends it",
                )
            )
        return prompt, entry.output


PROMPT_STYLES = {
    style.name: style
    for style in (
        PromptStyle("alpaca", "Stanford Alpaca's, as chapter 7", alpaca, "### Response:\n"),
        PromptStyle("phi3", "Phi-3's, as exercise 7.1", phi3, "<|assistant|>:\n"),
    )
}


def find_style(name: str) -> PromptStyle:
    """The style of that name.

    Raises:
        InputError: there is none.
    """
    if name not in PROMPT_STYLES:
        raise InputError(
            Problem(
                "--prompt-style",
                name,
                f"no such prompt style{did_you_mean(name, PROMPT_STYLES)}",
                f"choose one of: {', '.join(PROMPT_STYLES)}",
            )
        )
    return PROMPT_STYLES[name]
