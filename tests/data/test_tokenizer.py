"""The tokenizer: published ids, no network, and the fast path equal to the plain one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twolevers.data import tokenizer as tokenizer_module
from twolevers.data.tokenizer import END_OF_TEXT, Tokenizer, get_tokenizer

BLOCKED = """
import socket, sys
def refuse(*_, **__): raise OSError("no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from twolevers.data.tokenizer import get_tokenizer
print(get_tokenizer().encode("Hello, world!"))
import tiktoken
print(tiktoken.get_encoding("gpt2").n_vocab if "--ask" in sys.argv else "")
"""


def start_without_network(cache: str, *arguments: str) -> subprocess.Popen[str]:
    environ = {k: v for k, v in os.environ.items() if "CACHE_DIR" not in k}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", BLOCKED, *arguments],
        env=environ | {"TIKTOKEN_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_published_ids() -> None:
    assert get_tokenizer().encode("Hello, world!") == [15496, 11, 995, 0]
    assert get_tokenizer().decode([15496, 11, 995, 0]) == "Hello, world!"
    assert get_tokenizer().vocab_size == 50257


def test_several_first_calls_at_once_without_a_network(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    started = [start_without_network(str(cache), "--ask") for _ in range(3)]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert out.split("\n")[:2] == ["[15496, 11, 995, 0]", "50257"], err
    # The names are SHA-1 of the two addresses that tiktoken downloads from.
    assert sorted(path.name for path in cache.iterdir()) == [
        "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6",
        "6d1cbeee0f20b3d9449abfede4726ed8212e3aee",
    ]


@pytest.mark.parametrize("cache", ["", "a file/folder"])
def test_a_cache_that_is_off_or_cannot_be_written(tmp_path: Path, cache: str) -> None:
    (tmp_path / "a file").touch()
    process = start_without_network(str(tmp_path / cache) if cache else "")
    out, err = process.communicate(timeout=60)
    assert out.startswith("[15496, 11, 995, 0]"), err


def test_a_damaged_cache_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    damaged = tmp_path / "6d1cbeee0f20b3d9449abfede4726ed8212e3aee"
    damaged.write_text("half a file", encoding="utf-8")
    assert tokenizer_module._lay_vocabulary()
    assert damaged.stat().st_size > 400_000


def test_end_of_text_in_a_users_text_is_text() -> None:
    text = "What does <|endoftext|> mean?"
    for ids in (get_tokenizer().encode(text), *get_tokenizer().encode_batch([text, "a\nb"])[:1]):
        assert END_OF_TEXT not in ids
        assert ids[1:9] == [857, 1279, 91, 437, 1659, 5239, 91, 29]
        assert get_tokenizer().decode(ids) == text


def test_half_a_character_does_not_crash() -> None:
    assert get_tokenizer().decode(get_tokenizer().encode("a\ud83d!")) == "a\ufffd!"


NASTY = [
    "",
    " ",
    "\n",
    "\n\n",
    "\n\n x",
    " \n\n\nx\n",
    "a\n \nb",
    "a \n\n  b",
    "\r\n\r\nx",
    "it's\n's",
    "\x1c\nx\n\x1cy",
    "\u2028\nx\u3000\ny",
    "<|endoftext|>",
    "\n<|endoftext|>\n",
    "<|endoftext",
    "|>",
    "😀\n😀",
    "x" * 3000,
]


def plain(text: str) -> list[int]:
    return get_tokenizer().encoding.encode_ordinary(text)


def test_batches_equal_tiktoken_on_nasty_texts() -> None:
    head = "### Instruction:\n"
    texts = [head + text + "\n\n### Response:\n" for text in NASTY] + NASTY
    assert get_tokenizer().encode_batch(texts) == [plain(text) for text in texts]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(st.text(st.sampled_from(" \n\r\t\x1c\x85\u2003ab'1é<|endoftext|>.,😀"), max_size=40))
)
def test_batches_equal_tiktoken(texts: list[str]) -> None:
    assert get_tokenizer().encode_batch(texts) == [plain(text) for text in texts]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.text(), max_size=20))
def test_batches_equal_tiktoken_in_any_script(texts: list[str]) -> None:
    assert get_tokenizer().encode_batch(texts) == [plain(text) for text in texts]


def test_runs_of_any_white_space_equal_tiktoken() -> None:
    # Every character there is that tiktoken or Python takes for white space lies below U+3001.
    for shape in ("a{0}{0}b", "a {0}b", "a{0} b", "a{0}\nb", "{0}b{0}", "a{0}"):
        texts = [shape.format(chr(code)) for code in range(0x3001)]
        assert get_tokenizer().encode_batch(texts) == [plain(text) for text in texts]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.text())
def test_text_comes_back(text: str) -> None:
    assert get_tokenizer().decode(get_tokenizer().encode(text)) == text


def test_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_module, "_CHUNK_CHARS", 20)
    texts = [f"line {i}\nof {i * i} words" for i in range(50)] + ["<|endoftext|>"]
    assert get_tokenizer().encode_batch(texts) == [plain(text) for text in texts]


def test_a_million_spaces_before_a_word() -> None:
    # tiktoken's own regex engine overflows its stack here.
    text = " " * 1_000_000 + "x"
    for ids in (get_tokenizer().encode(text), *get_tokenizer().encode_batch([text])):
        assert get_tokenizer().decode(ids) == text
    for text in (" " * 300_000, "\n" * 300_000 + "x", "a \n" * 100_000):
        assert get_tokenizer().encode_batch([text]) == [get_tokenizer().encode(text)]
    # Where tiktoken still can, the ids are its own.
    text = "a" + "\n" * 3000 + "b" + " " * 700 + "c"
    assert get_tokenizer().encode(text) == plain(text)


def test_built_without_any_cache() -> None:
    built = Tokenizer(tokenizer_module._build())
    assert built.encode("Hello, world! <|endoftext|>") == plain("Hello, world! <|endoftext|>")
