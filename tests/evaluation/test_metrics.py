"""Metrics against values worked out by hand and against the libraries' own examples."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from twolevers.evaluation.metrics import (
    MEASURES,
    METRICS,
    answer_scores,
    chrf,
    exact_match,
    length_ratio,
    normalised_match,
    repetition_rate,
    rouge_l,
    token_f1,
)
from twolevers.evaluation.text import squad_words, words

SIMILE = ("The car is as fast as lightning.", "The car is as fast as a bullet.")


@pytest.mark.parametrize(
    ("reference", "answer", "value"),
    [
        ("Paris", "Paris", 1),
        ("Paris", "  Paris\n", 1),
        ("Paris", "paris", 0),
        ("Paris", "Paris.", 0),
        ("Paris", "", 0),
        ("", "", 1),
    ],
)
def test_exact_match(reference: str, answer: str, value: float) -> None:
    assert exact_match([reference], [answer]) == value


@pytest.mark.parametrize(
    ("reference", "answer", "value"),
    [
        # car is as fast as lightning | car is as fast as bullet: 5 of 6 and 6
        (*SIMILE, 5 / 6),
        ("Jane Austen.", "The author of 'Pride and Prejudice' is Jane Austen.", 2 * 2 / (2 + 8)),
        ("the the cat", "a cat", 1),
        ("yes yes no", "yes", 2 * 1 / (3 + 1)),
        ("guilty", "not guilty", 2 / 3),
        ("don’t", "don't", 1),
        ("Paris", "", 0),
        ("", "", 1),
        ("A", "The", 0),
        ("A", "a.", 0),
        ("+", "-", 0),
        ("+", "+", 1),
        ("😀", "😀", 1),
        ("我喜欢猫", "我喜欢狗", 3 / 4),
        ("Привет, мир!", "привет мир", 1),
    ],
)
def test_token_f1(reference: str, answer: str, value: float) -> None:
    assert token_f1([reference], [answer]) == pytest.approx(value)


@pytest.mark.parametrize(
    ("reference", "answer", "value"),
    [
        # the example of the library's page: the quick brown … the: 5 of 9 and of 8 words
        (
            "The quick brown fox jumps over the lazy dog",
            "The quick brown dog jumps on the log.",
            2 * (5 / 9) * (5 / 8) / (5 / 9 + 5 / 8),
        ),
        (*SIMILE, 2 * 6 / (7 + 8)),
        ("a b c d", "d c b a", 1 / 4),
        ("我喜欢猫", "我喜欢狗", 3 / 4),
        ("café", "caf", 0),
        ("👍🏽", "👍🏽", 1),
        ("❤️", "❤", 1),
        ("word", "", 0),
    ],
)
def test_rouge_l(reference: str, answer: str, value: float) -> None:
    assert rouge_l([reference], [answer]) == pytest.approx(value)


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=40),
    st.lists(st.sampled_from(["a", "b", "c", "d", "f"]), max_size=40),
)
def test_rouge_of_any_two_sequences_is_the_librarys(wanted: list[str], said: list[str]) -> None:
    reference, answer = " ".join(wanted), " ".join(said)
    expected = RougeScorer(["rougeL"]).score(reference, answer)["rougeL"].fmeasure
    assert rouge_l([reference], [answer]) == pytest.approx(expected)


def test_rouge_on_plain_english_is_the_librarys() -> None:
    reference, answer = SIMILE[0] * 3, "It's the FAST_car no. 7: 3.5 km/h, e-mail; " + SIMILE[1]
    expected = RougeScorer(["rougeL"]).score(reference, answer)["rougeL"].fmeasure
    assert rouge_l([reference], [answer]) == pytest.approx(expected)
    assert words(answer) == DefaultTokenizer().tokenize(answer)


@pytest.mark.parametrize(
    ("references", "answers", "value"),
    [
        # sacrebleu's own test cases (after Popović's chrF++.py), character order 6, beta 2
        (["abcdefg"], ["hijklmnop"], 0.0),
        (["abcdefg"], ["abcdefg"], 1.0),
        (["abcdefg"], ["a b c d e f g"], 1.0),
        # 'ab' for 'abc': order 1: P 1, R 2/3; order 2: P 1, R 1/2; order 3 has no hypothesis;
        # mean P 1, mean R 7/12, F2 = 5PR / (4P + R)
        (["abc"], ["ab"], 5 * (7 / 12) / (4 + 7 / 12)),
        (["猫が好き"], ["猫が好き"], 1.0),
        (["word"], [""], 0.0),
    ],
)
def test_chrf(references: list[str], answers: list[str], value: float) -> None:
    assert chrf(references, answers) == pytest.approx(value)


def test_scores_are_means_over_answers() -> None:
    scores = answer_scores(["a b", "c d", "x"], ["a b", "c e", "y"])
    assert list(scores) == [*METRICS, *MEASURES]
    assert scores["exact_match"] == pytest.approx(1 / 3)
    assert scores["token_f1"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert scores["rouge_l"] == pytest.approx((1 + 0.5 + 0) / 3)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " ",
        "\n\t",
        "...",
        "😀" * 300,
        "the the " * 600,
        "猫" * 500,
        "\x00\ufffd\u200b",
        "ｔｅｓｔ",
        "ß İ",
    ],
)
@pytest.mark.parametrize("reference", ["It is.", "…", "कुत्ता", "🇸🇪 42 %", "word " * 300])
def test_every_metric_stays_within_0_and_1(reference: str, answer: str) -> None:
    for name, value in answer_scores([reference, reference], [answer, reference]).items():
        assert 0 <= value <= 1 or name == "length_ratio", name
        assert json.loads(json.dumps(value)) == value
        assert math.isfinite(value)


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 references, 0 answers"):
        answer_scores([], [])
    with pytest.raises(ValueError, match="2 references, 1 answers"):
        answer_scores(["a", "b"], ["a"])


def test_words_of_scripts_with_marks_stay_whole() -> None:
    assert words("कुत्ता अच्छा है।") == ["कुत्ता", "अच्छा", "है"]
    assert words("cafe\u0301 CAFÉ") == ["café", "café"]
    assert squad_words("«The café», the!") == ["café"]


@pytest.mark.parametrize(
    ("reference", "answer", "value"),
    [
        ("Paris", "paris.", 1),
        ("The cat sat.", "a  cat sat", 1),
        ("Paris", "Paris, France", 0),
        ("one two", "two one", 0),
        ("A", "B", 0),
        ("+", "-", 0),
        ("Paris", "", 0),
    ],
)
def test_normalised_match_as_squad(reference: str, answer: str, value: float) -> None:
    assert normalised_match([reference], [answer]) == value


def test_length_ratio_is_of_all_answers_together() -> None:
    assert length_ratio(["one two", "three"], ["one two three four", ""]) == pytest.approx(4 / 3)
    assert length_ratio(["a b"], ["a b"]) == 1


def test_repetition_rate_by_hand() -> None:
    # a b c d a b c d: five sequences of four, the last of which stood there before.
    assert repetition_rate(["x"], ["a b c d a b c d"]) == pytest.approx(1 / 5)
    assert repetition_rate(["x"], ["no " * 10]) == pytest.approx(6 / 7)
    assert repetition_rate(["x", "y"], ["no " * 10, "a b c"]) == pytest.approx(3 / 7)
    assert repetition_rate(["a b c d a b c d"], ["A b c d e f g"]) == 0
