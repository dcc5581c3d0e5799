"""What the endpoint takes: OpenAI's requests for completions and chat, as far as GPT-2 goes.

What a field leaves open is as the run was told (`max_new_tokens`, `temperature` …). An option that
nothing here can do is refused by name, unless it asks for what is done anyway (`n: 1`).

A chat becomes one prompt as a chat in training data does (`data/prompt.py`):

- the last message, the user's, is the instruction; where it has several text parts, the first is,
  and the others are its input;
- earlier turns stand before it under their own headings, those of one role in a row as one;
- system and developer messages, wherever they stand, come first as one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    field_validator,
    model_validator,
)

from twolevers.data.prompt import Entry, PromptStyle, Turn
from twolevers.data.tokenizer import get_tokenizer
from twolevers.errors import InputError, Problem
from twolevers.options import GenerationOptions
from twolevers.serving.engine import Request

LONGEST_TOKEN = 128
"""Characters of the longest token of GPT-2's vocabulary: a text that is longer than so many times
the context does not fit, whatever it says."""
LONGEST_STOP = 1000
LONGEST_SHOWN = 60
"""Characters of a value that an error repeats."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "echo": (False,),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}
"""Options that cannot be had, with what they may say nevertheless."""
IGNORED = {
    "user",
    "metadata",
    "store",
    "service_tier",
    "parallel_tool_calls",
    "safety_identifier",
    "prompt_cache_key",
}
"""Say nothing about the answer."""


class StreamOptions(BaseModel):
    """What is added to a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False


class Asked(BaseModel):
    """What completions and chat have in common."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)  # 0: the likeliest alone
    top_k: int | None = Field(None, ge=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_cannot_be_had(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        left = {name: value for name, value in data.items() if name not in IGNORED}
        problems = []
        for name, neutral in NEUTRAL.items():
            value = left.pop(name, None)
            if value is not None and not any(_same(value, other) for other in neutral):
                way_out = f"say {neutral[0]!r}, or leave it out"
                shown = value if len(repr(value)) <= LONGEST_SHOWN else None
                problems.append(Problem(name, shown, "is not supported here", way_out))
        if problems:
            raise InputError(problems)
        return left

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, stop: str | list[str] | None) -> str | list[str] | None:
        texts = [stop] if isinstance(stop, str) else stop or []
        if len(texts) > 4 or any(len(text) > LONGEST_STOP for text in texts):
            raise ValueError(f"at most 4 texts of at most {LONGEST_STOP} characters")
        return stop

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def request(
        self, text: str | Sequence[int], run: GenerationOptions, context_length: int, *, strip: bool
    ) -> Request:
        """For the engine.

        Args:
            text: the prompt, rendered, or its tokens.
            run: what the run was told, for what was left open.

        Raises:
            InputError: a text far too long to be worth encoding.
        """
        if isinstance(text, str) and len(text) > context_length * LONGEST_TOKEN:
            what = f"has {len(text):,} characters, the model sees {context_length:,} tokens at once"
            raise InputError(Problem("prompt", None, what, "shorten it"))
        told = {
            "max_new_tokens": self._max_new_tokens(),
            **{name: getattr(self, name) for name in ("temperature", "top_p", "top_k")},
        }
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or ()
        return Request(
            prompt=tuple(get_tokenizer().encode(text) if isinstance(text, str) else text),
            options=run.model_copy(update={k: v for k, v in told.items() if v is not None}),
            seed=secrets.randbits(32) if self.seed is None else self.seed,
            stop=tuple(stop),
            strip=strip,
        )

    def _max_new_tokens(self) -> int | None:
        return self.max_tokens


class CompletionAsked(Asked):
    """`POST /v1/completions`."""

    prompt: str | list[int]
    """A text or token ids, also as a list of one of them."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _the_only_one(cls, prompt: Any) -> Any:
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
            if len(prompt) > 1:
                what = f"holds {len(prompt):,} prompts, one is answered a request"
                way_out = "send a request for each, all at once: they are answered together"
                raise InputError(Problem("prompt", None, what, way_out))
            prompt = prompt[0]
        if isinstance(prompt, list) and any(type(token) is not int for token in prompt):
            raise ValueError("token ids are whole numbers")
        return prompt


class TextPart(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One turn of a chat."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None

    @property
    def parts(self) -> list[str]:
        if isinstance(self.content, str):
            return [self.content]
        return [part.text for part in self.content or ()]


class ChatAsked(Asked):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1), FailFast()]
    max_completion_tokens: int | None = Field(None, ge=1)

    def prompt(self, style: PromptStyle) -> str:
        """The whole chat as one prompt.

        Raises:
            InputError: the last message is not the user's, or says nothing.
        """
        return style.render(entry_of(self.messages))[0]

    def _max_new_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


def entry_of(messages: Sequence[Message]) -> Entry:
    """A chat as an entry: see above.

    Raises:
        InputError: the last message is not the user's, or says nothing.
    """
    *earlier, last = messages
    if last.role != "user":
        raise InputError(
            Problem("messages: role of the last", last.role, "nothing to answer", "end with a user")
        )
    instruction, *inputs = [text for text in last.parts if text.strip()] or [""]
    if not instruction:
        raise InputError(Problem("messages: the last", None, "is empty", "say what to do"))
    return Entry(
        instruction=instruction,
        input="\n\n".join(inputs),
        output="",
        earlier=tuple(_turns(earlier)),
    )


def _turns(messages: Sequence[Message]) -> Iterator[Turn]:
    """What was said before: the system's first, then who spoke in turn; nothing said, no turn."""
    said = [
        ("system" if message.role == "developer" else message.role, "\n".join(message.parts))
        for message in messages
    ]
    said = [(role, text) for role, text in said if text.strip()]
    said.sort(key=lambda turn: turn[0] != "system")
    for role, turns in groupby(said, key=lambda turn: turn[0]):
        yield role, "\n\n".join(text for _, text in turns)


def _same(value: object, other: object) -> bool:
    """Equal, and both or neither a truth value: for Python 0 is False."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
