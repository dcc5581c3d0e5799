"""Texts to tokens, in three splits: balanced, shuffled and split as chapter 6 does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import twolevers
from twolevers.classification.options import ClassifyOptions, CutRule
from twolevers.classification.read import Labelled, read_labelled
from twolevers.classification.records import LabelledData
from twolevers.data.tokenizer import get_tokenizer
from twolevers.data.values import listed
from twolevers.errors import InputError, Problem
from twolevers.files import atomic_file, hash_of
from twolevers.progress import Progress
from twolevers.records import DatasetFile, SplitName

TEXTS_FILE = "texts.parquet"
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")


@dataclass(frozen=True)
class LabelledText:
    """A text ready for the model."""

    token_ids: list[int]
    label: int
    """Its label's place in the order of labels."""


def prepare(
    dataset: DatasetFile, options: ClassifyOptions, folder: Path, progress: Progress
) -> LabelledData:
    """Read, balance, split, tokenise and cut; writes `folder/texts.parquet`.

    Args:
        options: resolved.
        progress: told what was left out, cut or found twice.

    Raises:
        InputError: as `read_labelled`; too few texts to split.
    """
    data, seed = options.data, options.training.seed
    found = read_labelled(dataset.path, data)
    kept = balanced_rows(found.labels, seed) if data.balanced else np.arange(len(found.labels))
    advice = _advice(found.labels, data.balanced)
    splits = split_rows(kept, found.labels, seed, advice)
    of_row = {int(row): name for name, rows in splits.items() for row in rows}
    rows = [int(row) for name in SPLITS for row in splits[name]]
    place = {label: place for place, label in enumerate(found.order)}
    labels = [place[found.labels[row]] for row in rows]
    whole = get_tokenizer().encode_batch([found.texts[row] for row in rows])
    tokens = [cut(ids, data.max_length, data.cut) for ids in whole]

    table = pa.table(
        {
            "row_number": [found.row_numbers[row] for row in rows],
            "split": [of_row[row] for row in rows],
            "label": pa.array(labels, pa.int32()),
            "text": [found.texts[row] for row in rows],
            "token_ids": pa.array(tokens, pa.list_(pa.int32())),
        }
    )
    with atomic_file(folder / TEXTS_FILE) as temporary:
        pa.parquet.write_table(table, temporary)
    train = {found.texts[row] for row in splits["train"]}
    counts = Counter(found.labels[row] for row in splits["train"])
    record = LabelledData(
        path=folder,
        sha256=hash_of([dataset.sha256, data.model_dump(), seed, twolevers.__version__]),
        data_sha256=dataset.sha256,
        dataset=dataset.name,
        text_column=found.text_column,
        label_column=found.label_column,
        labels=found.order,
        majority=max(found.order, key=lambda label: counts[label]),
        num_rows=len(found.labels),
        num_dropped=len(found.labels) - len(kept),
        num_train=len(splits["train"]),
        num_val=len(splits["val"]),
        num_test=len(splits["test"]),
        num_cut=sum(len(ids) > data.max_length for ids in whole),
        num_repeated=sum(found.texts[row] in train for row in splits["test"]),
        num_rare=sum(count < 3 for count in Counter(labels).values()),
        longest=max(map(len, whole)),
        train_tokens=sum(len(ids) for ids in tokens[: len(splits["train"])]),
    )
    _say(record, options, progress)
    _say_missing(found, splits, progress)
    _say_doubts(found, progress)
    return record


def cut(ids: Sequence[int], max_length: int, rule: CutRule) -> list[int]:
    """At most `max_length` of the tokens: the first, the last, or half of each (of an odd number
    one more of the first)."""
    if len(ids) <= max_length:
        return list(ids)
    if rule == "keep the start":
        return list(ids[:max_length])
    if rule == "keep the end":
        return list(ids[-max_length:])
    end = max_length // 2
    return [*ids[: max_length - end], *ids[-end:]]


def balanced_rows(labels: Sequence[str], seed: int) -> np.ndarray:
    """Rows, in file order, with as many of every label as the rarest has; drawn by the seed."""
    generator = np.random.Generator(np.random.PCG64(seed))
    column = np.array(labels, dtype=object)
    least = min(Counter(labels).values())
    drawn = [
        generator.choice(np.flatnonzero(column == label), least, replace=False)
        for label in sorted(set(labels))
    ]
    return np.sort(np.concatenate(drawn))


def split_rows(
    rows: np.ndarray, labels: Sequence[str], seed: int, advice: str = "give at least 10"
) -> dict[SplitName, np.ndarray]:
    """70 % train, 10 % val, the rest test, of the rows shuffled by the seed, as chapter 6. Where
    that leaves a label out of a split that it has texts enough for, the shuffled rows are split
    label by label instead, see `label_sizes`.

    Args:
        labels: of every row of the file.

    Raises:
        InputError: too few rows for every split to have one.
    """
    num_train, num_val = int(len(rows) * 0.7), int(len(rows) * 0.1)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(rows)
    place = np.repeat([0, 1, 2], [num_train, num_val, len(rows) - num_train - num_val])
    column = np.array(labels, dtype=object)[order]
    of_label = [np.flatnonzero(column == label) for label in sorted({*column})]
    sizes = [label_sizes(len(places)) for places in of_label]
    if any(
        size and split not in place[places]
        for places, sizes_of in zip(of_label, sizes, strict=True)
        for split, size in enumerate(sizes_of)
    ):
        for places, sizes_of in zip(of_label, sizes, strict=True):
            place[places] = np.repeat([0, 1, 2], sizes_of)
    splits = {name: order[place == split] for split, name in enumerate(SPLITS)}
    if not num_val or not all(map(len, splits.values())):
        what = "too few texts to split 70/10/20 into training, validation and test"
        raise InputError(Problem("dataset", len(rows), what, advice))
    return splits


def label_sizes(count: int) -> tuple[int, int, int]:
    """Of a label's texts how many train, validate and test: 10 % and 20 % rounded (half up) and at
    least one each; of two texts one trains and one tests, a single one trains."""
    num_val = max((count + 5) // 10, 1) if count > 2 else 0
    num_test = max((2 * count + 5) // 10, 1) if count > 1 else 0
    return count - num_val - num_test, num_val, num_test


def read_texts(file: Path, split: SplitName) -> list[str]:
    """One split's texts as they were read, in the order of `split_rows`."""
    table = pa.parquet.read_table(file, columns=["text"], filters=[("split", "=", split)])
    texts: list[str] = table["text"].to_pylist()
    return texts


def load_texts(data: LabelledData, split: SplitName) -> list[LabelledText]:
    """One split's texts as tokens, in the order of `split_rows`."""
    table = pa.parquet.read_table(
        data.path / TEXTS_FILE,
        columns=["label", "token_ids"],
        filters=[("split", "=", split)],
    )
    columns = table.to_pydict()
    pairs = zip(columns["token_ids"], columns["label"], strict=True)
    return [LabelledText(ids, label) for ids, label in pairs]


def _advice(labels: Sequence[str], balanced: bool) -> str:
    """What to do about texts too few to split."""
    counts = Counter(labels)
    rarest = min(counts, key=lambda label: counts[label])
    if not balanced or counts[rarest] * len(counts) == len(labels):
        if len(labels) < 10:
            return "give at least 10"
        most = max(counts.values())  # 1 or 2: numbers or names, taken for labels
        return (
            f"a label takes 3 to stand in every split, and none of the {len(counts)} has more than "
            f"{most}: name the column of the labels (--label-column), or give more texts of each"
        )
    texts = f"{counts[rarest]} text{'s' * (counts[rarest] != 1)}"
    return (
        f"labels are balanced, and the rarest, {rarest!r}, has {texts}: give more of it, remove "
        "it, or use all texts as they are: --no-balanced"
    )


def _say(data: LabelledData, options: ClassifyOptions, progress: Progress) -> None:
    sizes = f"{data.num_train} to train, {data.num_val} to validate, {data.num_test} to test"
    progress.note(f"{data.text_column} → {data.label_column}: {listed(data.labels)}; {sizes}")
    if data.num_dropped:
        progress.note(f"{data.num_dropped} of {data.num_rows} texts left out: labels are balanced")
    if data.num_cut:
        limit = options.data.max_length
        progress.note(f"{data.num_cut} texts cut to {limit} tokens: {options.data.cut}")
    if data.num_repeated:
        progress.note(f"{data.num_repeated} test texts stand in the training split too")


def _say_missing(found: Labelled, splits: dict[SplitName, np.ndarray], progress: Progress) -> None:
    """The labels that are too rare to stand in every split."""
    texts = Counter(found.labels[row] for rows in splits.values() for row in rows)
    for count, missing in ((1, "validation and test splits"), (2, "validation split")):
        if rare := [label for label in found.order if texts[label] == count]:
            of_each = "1 text" if count == 1 else f"{count} texts"
            progress.note(f"missing in the {missing}, with {of_each} each: {listed(rare)}")


def _say_doubts(found: Labelled, progress: Progress) -> None:
    """What a person should look at, as it is rarely meant."""
    by_lower: dict[str, list[str]] = {}
    for label in found.order:
        by_lower.setdefault(label.casefold(), []).append(label)
    if alike := [label for labels in by_lower.values() if len(labels) > 1 for label in labels]:
        progress.note(f"labels that differ in case alone are different labels: {listed(alike)}")
    labels_of: dict[str, set[str]] = {}
    for text, label in zip(found.texts, found.labels, strict=True):
        labels_of.setdefault(text, set()).add(label)
    if several := sum(len(labels) > 1 for labels in labels_of.values()):
        progress.note(f"texts that stand in the file with several different labels: {several}")
