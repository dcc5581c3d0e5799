"""Text to the tokens that metrics compare. No model's vocabulary has a part in it."""

from __future__ import annotations

import re
import string
import unicodedata

# Written without spaces: a run of letters is a sentence there, so each character is a token.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION = set(string.punctuation)


def words(text: str) -> list[str]:
    """Lower-case words, numbers, and symbols such as emoji, for ROUGE.

    On ASCII text the tokens of `rouge_score` itself (runs of a-z and 0-9). That library's
    tokenizer drops every other letter, so that Chinese scores nothing and `café` is `caf`; here
    a word is letters, digits and marks of any script, one character where a script is written
    without spaces, and a symbol outside ASCII is a token.
    """
    pieces = []
    for character in unicodedata.normalize("NFC", text.lower()):
        category = unicodedata.category(character)
        if "\ufe00" <= character <= "\ufe0f":
            continue  # says how the symbol before it is drawn
        if category[0] in "LNM":
            pieces.append(character)
        elif category[0] == "S" and not character.isascii():
            pieces.append(f" {character} ")
        else:
            pieces.append(" ")
    return _spread("".join(pieces)).split()


def squad_words(text: str) -> list[str]:
    """The words of SQuAD's scorer: lower case, punctuation and articles removed, split at spaces.

    Three steps beyond its script: punctuation of every script goes (curly quotes), characters of
    scripts without spaces are tokens of their own (as in MLQA's scorer), and an answer of which
    nothing would be left (`A`, `+`) is kept as it is, so that two such answers can differ.
    """
    text = unicodedata.normalize("NFC", text.lower())
    bare = "".join(character for character in text if not _is_punctuation(character))
    return _spread(_ARTICLES.sub(" ", bare)).split() or text.split()


def _is_punctuation(character: str) -> bool:
    return character in _ASCII_PUNCTUATION or unicodedata.category(character)[0] == "P"


def _spread(text: str) -> str:
    return _UNSPACED.sub(r" \g<0> ", text)
