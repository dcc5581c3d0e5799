"""Tokens per character by writing system: GPT-2's vocabulary was made of English pages, and other
scripts take several tokens a character."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from twolevers.data.tokenizer import get_tokenizer

COMMON, SYMBOLS = "digits, spaces, punctuation", "symbols, emoji"
_UNKNOWN = 255
_NO_SCRIPTS = {
    "COMBINING": "combining marks",
    "IDEOGRAPHIC": "CJK",
    "KATAKANA-HIRAGANA": "Katakana",
    "MICRO": COMMON,
    "MODIFIER": COMMON,
    "VARIATION": SYMBOLS,  # selectors, which stand behind emoji
}
_STYLES = {"FULLWIDTH", "HALFWIDTH", "MATHEMATICAL"}
"""Other forms of letters, which take as many tokens as a script of their own would."""


@dataclass(frozen=True)
class ScriptCount:
    """Of one script: characters, and tokens; a token over several characters counts for each in
    part, by its bytes."""

    script: str
    characters: int
    tokens: float

    @property
    def tokens_per_character(self) -> float:
        return self.tokens / self.characters


class ScriptCounter:
    """Counts as texts come."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._groups = np.full(0x110000, _UNKNOWN, np.uint8)
        self._characters = np.zeros(256, np.int64)
        self._tokens = np.zeros(256)

    def add(self, texts: Sequence[str], ids: np.ndarray) -> None:
        """Texts, and their tokens end to end."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
        if not len(codes):
            return
        for code in np.unique(codes[self._groups[codes] == _UNKNOWN]).tolist():
            self._groups[code] = self._group_of(chr(code))
        token_bytes = _token_bytes()[ids]
        share = np.repeat(1.0 / token_bytes, token_bytes)
        width = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
        tokens = np.add.reduceat(share, np.cumsum(width) - width)
        groups = self._groups[codes]
        self._characters += np.bincount(groups, minlength=256)
        self._tokens += np.bincount(groups, weights=tokens, minlength=256)

    def counts(self) -> list[ScriptCount]:
        """By script, the one with most characters first."""
        found = [
            ScriptCount(name, int(self._characters[group]), float(self._tokens[group]))
            for group, name in enumerate(self._names)
        ]
        return sorted(found, key=lambda count: -count.characters)

    def _group_of(self, character: str) -> int:
        name = script_of(character)
        if name not in self._names:
            if len(self._names) == _UNKNOWN:  # more scripts than there are
                name = self._names[-1]
            else:
                self._names.append(name)
        return self._names.index(name)


def script_of(character: str) -> str:
    """`Latin`, `Cyrillic`, `CJK`: the first word of a letter's Unicode name; of one that stands
    for another, such as `ª` or `ℝ`, that one's."""
    kind = unicodedata.category(character)
    if kind[0] in "LM":
        word = unicodedata.name(character, "OTHER").split()[0]
        if word in _NO_SCRIPTS:
            return _NO_SCRIPTS[word]
        plain = unicodedata.normalize("NFKC", character)[0]
        if plain != character and word not in _STYLES:
            return script_of(plain)
        return word if word == "CJK" else word.capitalize()
    return SYMBOLS if kind == "So" or (kind == "Sk" and ord(character) > 0xFF) else COMMON


@cache
def _token_bytes() -> np.ndarray:
    """Bytes of each token of the vocabulary: (V,) int64."""
    tokenizer = get_tokenizer()
    decode = tokenizer.encoding.decode_single_token_bytes
    return np.array([len(decode(token)) for token in range(tokenizer.vocab_size)])
