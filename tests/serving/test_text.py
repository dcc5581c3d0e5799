"""Text as it comes, against the text of all tokens at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twolevers.data.tokenizer import get_tokenizer
from twolevers.serving.text import TextStream

SPREAD = "né 😀😀 翻译 \u2028 e\u0301 👩‍👩‍👧 ok"


def pieces(ids: list[int], stop: tuple[str, ...] = (), *, strip: bool = False) -> list[str]:
    stream = TextStream(stop, strip=strip)
    given_out = [stream.push(token_id) for token_id in ids]
    return [*given_out, stream.end()]


def test_a_character_comes_whole() -> None:
    ids = get_tokenizer().encode(SPREAD)
    assert len(ids) > len(SPREAD.split())  # several tokens a character
    came = pieces(ids)
    assert "".join(came) == SPREAD
    assert not any("\ufffd" in piece for piece in came)
    assert "😀" in came


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    ids = get_tokenizer().encode("a😀")[:-1]
    assert "".join(pieces(ids)) == get_tokenizer().decode(ids) == "a\ufffd"


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, 50_256), max_size=30),
    st.integers(0, 60),
    st.integers(1, 6),
    st.booleans(),
)
def test_it_is_the_whole_text_cut_before_the_stop(
    ids: list[int], start: int, length: int, strip: bool
) -> None:
    whole = get_tokenizer().decode(ids)
    stop = whole[start : start + length]
    came = "".join(pieces(ids, (stop,), strip=strip))
    expected = whole[: whole.index(stop)] if stop else whole
    assert came == (expected.strip() if strip else expected)


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("one two three", ("tw",), "one "),
        ("aab", ("ab",), "a"),
        ("end\n\n### Instruction: more", ("\n\n###", "more"), "end"),
        ("\n\n\n", ("\n\n\n\n",), "\n\n\n"),
        ("all", ("",), "all"),
    ],
)
def test_stops(text: str, stops: tuple[str, ...], expected: str) -> None:
    assert "".join(pieces(get_tokenizer().encode(text), stops)) == expected


def test_nothing_that_may_become_a_stop_is_given_out_early() -> None:
    stream = TextStream(("\n\n#",))
    assert [stream.push(i) for i in get_tokenizer().encode("a\n\n")][-1] in ("", "a")
    assert "".join(map(stream.push, get_tokenizer().encode("b"))) == "\n\nb"
