"""Balancing, splits, cutting, and what of it is counted."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.classify_command import _example
from twolevers.classification.data import cut, load_texts, prepare, split_rows
from twolevers.classification.options import ClassifyOptions
from twolevers.classification.records import LabelledData
from twolevers.data.tokenizer import get_tokenizer
from twolevers.embedded import MESSAGES_PATH
from twolevers.embedded.messages import make_messages, render
from twolevers.errors import InputError
from twolevers.files import sha256_of
from twolevers.progress import Silent
from twolevers.records import DatasetFile


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def prepared(
    folder: Path, rows: list[tuple[str, str]], seed: int = 123, **data: Any
) -> tuple[LabelledData, list[str]]:
    file = folder / "rows.csv"
    file.write_text("label,text\n" + "".join(f'{l},"{t}"\n' for l, t in rows), encoding="utf-8")  # noqa: E741
    dataset = DatasetFile(
        name="rows", path=file, sha256=sha256_of(file), num_bytes=1, verified="local file"
    )
    options = ClassifyOptions.model_validate({"data": data, "training": {"seed": seed}})
    notes = Notes()
    return prepare(dataset, options, folder / f"data-{seed}", notes), notes.notes


def rows(**counts: int) -> list[tuple[str, str]]:
    return [(label, f"{label} text {n}") for label, count in counts.items() for n in range(count)]


def test_cut_rules() -> None:
    ids = [1, 2, 3, 4, 5, 6, 7]
    assert cut(ids, 3, "keep the start") == [1, 2, 3]
    assert cut(ids, 3, "keep the end") == [5, 6, 7]
    assert cut(ids, 3, "keep both ends") == [1, 2, 7]
    assert cut(ids, 4, "keep both ends") == [1, 2, 6, 7]
    for rule in ("keep the start", "keep the end", "keep both ends"):
        assert cut(ids, 7, rule) == ids


def test_split_in_the_chapters_portions() -> None:
    labels = ["ham", "spam"] * 747  # the chapter's number of balanced messages
    splits = split_rows(np.arange(1494), labels, 123)
    assert [len(splits[name]) for name in ("train", "val", "test")] == [1045, 149, 300]
    assert sorted(np.concatenate(list(splits.values()))) == list(range(1494))
    again, other = (split_rows(np.arange(1494), labels, seed) for seed in (123, 124))
    assert np.array_equal(splits["test"], again["test"])
    assert not np.array_equal(splits["test"], other["test"])


def test_balanced_or_not(tmp_path: Path) -> None:
    unequal = rows(ham=60, spam=20)
    data, notes = prepared(tmp_path, unequal)
    labels = [t.label for name in ("train", "val", "test") for t in load_texts(data, name)]
    assert Counter(labels) == {0: 20, 1: 20}
    assert (data.num_rows, data.num_dropped) == (80, 40)
    assert "40 of 80 texts left out: labels are balanced" in notes
    data, notes = prepared(tmp_path, unequal, balanced=False)
    labels = [t.label for name in ("train", "val", "test") for t in load_texts(data, name)]
    assert Counter(labels) == {0: 60, 1: 20}
    assert (data.num_dropped, data.majority) == (0, "ham")
    assert not any("left out" in note for note in notes)


def test_tokens_are_the_texts_and_labels_theirs(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, rows(a=10, b=10))
    tokenizer = get_tokenizer()
    for name in ("train", "val", "test"):
        for text in load_texts(data, name):
            assert tokenizer.decode(text.token_ids).startswith(f"{data.labels[text.label]} text")


def test_the_seed_decides(tmp_path: Path) -> None:
    first, again, other = (
        load_texts(prepared(tmp_path, rows(a=30, b=20), seed)[0], "train") for seed in (1, 1, 2)
    )
    assert first == again != other


def test_long_texts_are_cut_and_counted(tmp_path: Path) -> None:
    long = [(label, "word " * 30 + f"{label} {n}") for label in "ab" for n in range(3)]
    data, notes = prepared(
        tmp_path, [*rows(a=10, b=10), *long], max_length=8, cut="keep the end", balanced=False
    )
    assert data.num_cut == 6
    assert "6 texts cut to 8 tokens: keep the end" in notes
    assert data.longest > 30
    lengths = [
        len(t.token_ids) for name in ("train", "val", "test") for t in load_texts(data, name)
    ]
    assert max(lengths) == 8


def test_repeated_test_texts_are_counted(tmp_path: Path) -> None:
    data, notes = prepared(tmp_path, [("a", "the same"), ("b", "and this")] * 10)
    assert data.num_repeated == data.num_test == 4
    assert "4 test texts stand in the training split too" in notes


def test_too_few_texts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few texts to split 70/10/20"):
        prepared(tmp_path, rows(a=4, b=4))


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("texts", [1, 2])
def test_a_column_that_holds_no_labels(tmp_path: Path, texts: int, balanced: bool) -> None:
    numbers = rows(**{f"0.{n}": texts for n in range(100, 130)})
    with pytest.raises(InputError, match="none of the 30 has more than") as caught:
        prepared(tmp_path, numbers, balanced=balanced)
    assert f"more than {texts}: name the column of the labels (--label-column)" in str(caught.value)
    assert "at least 10" not in str(caught.value)


# Worked out by hand: 10 % and 20 % rounded half up and at least one, what is left trains.
BY_LABEL = {
    "a": (28, (19, 3, 6)),
    "b": (25, (17, 3, 5)),
    "c": (7, (5, 1, 1)),
    "d": (4, (2, 1, 1)),
    "e": (3, (1, 1, 1)),
    "f": (2, (1, 0, 1)),
    "g": (1, (1, 0, 0)),
}


@pytest.mark.parametrize("seed", range(3))
def test_rare_labels_stand_in_every_split(tmp_path: Path, seed: int) -> None:
    counts = {label: count for label, (count, _) in BY_LABEL.items()}
    data, notes = prepared(tmp_path, rows(**counts), seed, balanced=False)
    splits = [Counter(t.label for t in load_texts(data, s)) for s in ("train", "val", "test")]
    for place, (_, sizes) in enumerate(BY_LABEL.values()):
        assert tuple(split[place] for split in splits) == sizes
    assert (data.num_train, data.num_val, data.num_test, data.num_rare) == (46, 9, 15, 2)
    assert "missing in the validation split, with 2 texts each: 'f'" in notes
    assert "missing in the validation and test splits, with 1 text each: 'g'" in notes


def test_rare_labels_are_drawn_by_the_seed(tmp_path: Path) -> None:
    few = rows(a=5, b=5)
    tests = [load_texts(prepared(tmp_path, few, seed)[0], "test") for seed in (1, 1, 2, 3)]
    assert [len(texts) for texts in tests] == [2, 2, 2, 2]
    assert tests[0] == tests[1]
    assert not tests[1] == tests[2] == tests[3]


def test_what_a_rare_label_does_to_the_others_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"too few.*the rarest, 'c', has 1 text: .*--no-balanced"):
        prepared(tmp_path, rows(a=50, b=50, c=1))
    many = rows(**{f"l{n}": 2 for n in range(400)}, rare=1)
    with pytest.raises(InputError, match="the rarest, 'rare', has 1 text: ") as caught:
        prepared(tmp_path, many)
    assert "too few texts to split" in str(caught.value)


def test_doubtful_labels_are_said(tmp_path: Path) -> None:
    mixed = [*rows(Spam=10, spam=10, ham=10), ("ham", "Spam text 1")]
    _, notes = prepared(tmp_path, mixed)
    assert "labels that differ in case alone are different labels: 'Spam', 'spam'" in notes
    assert "texts that stand in the file with several different labels: 1" in notes


def test_embedded_messages_are_what_the_code_writes() -> None:
    messages = make_messages()
    assert MESSAGES_PATH.read_text(encoding="utf-8") == render(messages)
    assert Counter(label for label, _ in messages) == {"ham": 600, "spam": 400}
    assert len({text.lower() for _, text in messages}) >= 990
    assert all(text == text.strip() and "{" not in text for _, text in messages)
    assert MESSAGES_PATH.stat().st_size < 120_000


def test_a_text_to_ask_with_is_no_option(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, [(label, f"-{n} it's") for label in "ab" for n in range(9)])
    (tmp_path / "data").symlink_to(data.path)
    assert shlex.split(_example(tmp_path))[0] == "--"
    assert shlex.split(_example(tmp_path))[1].endswith(" it's")
