"""Entries that a model is scored on although it was trained on them."""

from __future__ import annotations

from collections.abc import Iterator

from twolevers.data.prompt import Entry
from twolevers.data.split import TokenisedSplit, load_split
from twolevers.records import ScoredSplit, TokenisedData


def num_trained_on(trained: TokenisedData, scored: TokenisedData, split: ScoredSplit) -> int:
    """How many entries of a split stand whole in the data that a model was trained on.

    Args:
        trained: data of which the training split was trained on.
        scored: data of which `split` is scored.
    """
    seen = {_whole(entry) for entry in _entries(load_split(trained, "train"))}
    return sum(_whole(entry) in seen for entry in _entries(load_split(scored, split)))


def _entries(split: TokenisedSplit) -> Iterator[Entry]:
    return (split.entry(i) for i in range(len(split)))


def _whole(entry: Entry) -> int:
    return hash((entry.instruction, entry.input, entry.output, entry.earlier))
