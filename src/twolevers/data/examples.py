"""Rendered rows token by token: what the model is given, and which tokens carry loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twolevers.data.row import Row
from twolevers.data.split import TokenisedSplit
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.records import ScoredSplit

NUM_EXAMPLES = 10

TokenKind = Literal["supervised", "ignored", "end"]
_SHOWN = {"\n": "⏎\n", "\t": "⇥\t"}


@dataclass(frozen=True)
class Token:
    """One token as it is shown: supervised (it is a target of the loss), ignored, or the end."""

    id: int
    text: str
    kind: TokenKind


@dataclass(frozen=True)
class Example:
    """One row as it is trained on."""

    row_number: int
    split: ScoredSplit
    tokens: tuple[Token, ...]
    is_cut: bool
    """Whether its end did not fit into `max_length`."""


def example_of(row_number: int, split: ScoredSplit, row: Row) -> Example:
    """A row as `batch.collate` takes it: nothing predicts its first token, and what the prompt
    masks carries no loss."""
    tokens = tuple(
        Token(token, shown(token), _kind(token, place, row))
        for place, token in enumerate(row.token_ids)
    )
    return Example(row_number, split, tokens, is_cut=row.token_ids[-1] != END_OF_TEXT)


def examples_of(split: TokenisedSplit) -> list[Example]:
    """Some rows spread over a split, of ten different places."""
    return [
        example_of(split.row_number(i), split.split, split[i])
        for i in spread(len(split), NUM_EXAMPLES)
    ]


def spread(length: int, count: int) -> list[int]:
    """`count` places (all, where there are no more) from the first to the last."""
    if length <= count:
        return list(range(length))
    return [place * (length - 1) // (count - 1) for place in range(count)]


def shown(token: int) -> str:
    """A token as text that can be seen: `⏎` before a line break, `\\x9f` for half a character."""
    if token == END_OF_TEXT:
        return "<|endoftext|>"
    content = get_tokenizer().encoding.decode_single_token_bytes(token)
    return visible(content.decode("utf-8", "backslashreplace"))


def visible(text: str) -> str:
    """Text whose every character can be seen: what cannot be printed is written as `\\u202e`. What
    joins two characters, to one emoji or in a Persian word, stays between them."""
    return "".join(
        character
        if character.isprintable() or _joins(text, place)
        else _SHOWN.get(character) or character.encode("unicode_escape").decode("ascii")
        for place, character in enumerate(text)
    )


def _joins(text: str, place: int) -> bool:
    """Whether a joiner, or what keeps two letters from joining, stands between characters that it
    may be meant for."""
    around = text[place - 1 : place] + text[place + 1 : place + 2]
    return (
        text[place] in "\u200c\u200d"
        and len(around) == 2
        and around.isprintable()
        and not any(character.isascii() for character in around)
    )


def _kind(token: int, place: int, row: Row) -> TokenKind:
    if place < max(row.prompt_length, 1):
        return "ignored"
    return "end" if token == END_OF_TEXT else "supervised"
