"""What a data set is like, before anything is trained on it: found and reported, never dropped.

Goes through the file once, by the same reading, rendering and tokenising as a run. A file that a
run would refuse is inspected all the same, as far as its rows are entries.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twolevers.data import near
from twolevers.data.examples import NUM_EXAMPLES, Example, example_of, spread, visible
from twolevers.data.ledger import SHOWN_PAIRS, Columns, Ledger, account, decide, first_equal
from twolevers.data.lengths import histogram, summary
from twolevers.data.mapping import parse_map
from twolevers.data.prompt import Entry, find_style
from twolevers.data.read import Entries
from twolevers.data.row import Row
from twolevers.data.scripts import ScriptCount, ScriptCounter
from twolevers.data.split import SPLITS, split_rows
from twolevers.data.tokenise import batches, encode_entries
from twolevers.data.tokenizer import get_tokenizer
from twolevers.errors import InputError
from twolevers.options import DataOptions
from twolevers.progress import Progress
from twolevers.records import DatasetFile, SplitName

NUM_WORST = 5
OF_SPLITS = (
    "dropped",
    "num_cut",
    "near_test_entries_in_training",
    "test_entries_in_training",
    "test_prompts_in_training",
    "val_entries_in_training",
)
"""Fields of an `Inspection` that are None where there are too few rows to split."""
MIN_CHARACTERS = 20
"""Shorter texts are not ranked by their tokens per character."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of row numbers that repeat each other: how many, and the first of them."""

    count: int
    first: list[list[float]]
    """Row numbers counted from 1; for near pairs how alike they are, from 0 to 1, behind them."""


@dataclass(frozen=True)
class Dropped:
    """Rows of one split that a run would leave out for one reason."""

    split: SplitName
    reason: str
    count: int


@dataclass(frozen=True)
class WorstEntry:
    """An entry that takes many tokens for its characters."""

    row_number: int
    tokens_per_character: float
    text: str


@dataclass(frozen=True)
class Inspection:
    """All that was found. Lengths are tokens of whole rows before anything is cut, end of text
    counted; row numbers are counted from 1."""

    dataset: str
    data_sha256: str
    shape: str
    unread: list[str]
    """Columns that nothing is taken from."""
    prompt_style: str
    loss_on: str
    max_length: int
    num_rows: int
    num_faulty: int
    """Rows that are no entries."""
    refusals: list[str]
    """Why a run with these options would not start; empty where it would."""
    splits: dict[str, int]
    dropped: list[Dropped] | None
    """Rows that a run would leave out."""
    num_cut: int | None
    """Rows that a run would cut; `over_limit` counts those that it would leave out too."""
    lengths: dict[str, float]
    histogram: dict[str, list[int]]
    """`edges` (the last bin is open) and `counts`."""
    over_limit: int
    empty_inputs: int
    kinds: dict[str, int]
    duplicates: Pairs
    near_duplicates: Pairs
    test_entries_in_training: Pairs | None
    test_prompts_in_training: Pairs | None
    near_test_entries_in_training: Pairs | None
    val_entries_in_training: Pairs | None
    scripts: list[ScriptCount]
    worst: list[WorstEntry]
    examples: list[Example]

    def as_dict(self) -> dict[str, Any]:
        """For programs: everything, JSON's types alone."""
        scripts = [
            asdict(one) | {"tokens_per_character": one.tokens_per_character} for one in self.scripts
        ]
        return asdict(self) | {"scripts": scripts}


def inspect(
    dataset: DatasetFile, options: DataOptions, *, seed: int, progress: Progress
) -> Inspection:
    """Everything about a data set that decides whether to train on it.

    Args:
        seed: for a shuffled split.

    Raises:
        InputError: the file cannot be read, has no shape that is known, or not one entry.
    """
    entries = Entries(dataset.path, parse_map(options.map))
    rows = _Rows(entries, options)
    progress.start("inspect", None, "entries")
    try:
        for numbers, batch in batches(entries):
            rows.add(numbers, batch)
            progress.advance(len(rows.numbers))
    finally:
        progress.finish()
    if not rows.numbers:
        entries.check()
    return rows.inspection(dataset, seed)


class _Rows:
    """What is kept of the entries as they come, and what is found once all have come."""

    def __init__(self, entries: Entries, options: DataOptions) -> None:
        self.entries, self.options = entries, options
        self.style = find_style(options.prompt_style)
        self.numbers: list[int] = []
        self.kinds: Counter[str] = Counter()
        self.empty_inputs = 0
        self.scripts = ScriptCounter()
        self._ids: list[np.ndarray] = []
        self._bare: list[np.ndarray] = []
        self._characters: list[int] = []
        self._minima: list[np.ndarray] = []
        self._columns: list[Columns] = []

    def add(self, numbers: list[int], batch: list[Entry]) -> None:
        self.numbers += numbers
        self.kinds.update(entry.kind for entry in batch if entry.kind)
        self.empty_inputs += sum(not entry.input for entry in batch)
        ids, ends, columns = encode_entries(batch, self.style)
        self._ids += np.split(ids, ends[:-1])
        self._columns.append(columns)
        # Without the prompt style's own words, which would make all entries alike.
        texts = [bare_text(entry) for entry in batch]
        bare, lengths = get_tokenizer().encode_flat(texts)
        self._bare += np.split(bare, np.cumsum(lengths)[:-1])
        self._characters += map(len, texts)
        self.scripts.add(texts, bare)
        self._minima.append(near.signatures(bare, lengths))

    def inspection(self, dataset: DatasetFile, seed: int) -> Inspection:
        options, columns = self.options, Columns.joined(self._columns)
        refusals: list[str] = []
        splits: dict[SplitName, np.ndarray] = {}
        ledger: Ledger | None = None
        try:
            self.entries.check()
        except InputError as error:
            refusals += str(error).splitlines()
        try:
            splits = split_rows(
                len(self.numbers), seed=seed if options.split == "shuffled" else None
            )
            ledger = account(splits, columns, options)
            decide(splits, columns, options, np.array(self.numbers))
        except InputError as error:
            refusals += str(error).splitlines()
        repeats = _repeats(columns.entry_hashes)
        near_ones, near_leaks = self._near(splits, repeats)
        lengths = columns.lengths
        return Inspection(
            dataset=dataset.name,
            data_sha256=dataset.sha256,
            shape=str(self.entries.shape),
            unread=self.entries.unread,
            prompt_style=options.prompt_style,
            loss_on=options.loss_on,
            max_length=options.max_length,
            num_rows=self.entries.num_rows,
            num_faulty=self.entries.num_bad,
            refusals=refusals,
            splits={split: len(splits[split]) for split in SPLITS if split in splits},
            **self._decided(ledger, near_leaks),
            lengths=summary(lengths),
            histogram=histogram(lengths),
            over_limit=int((lengths > options.max_length).sum()),
            empty_inputs=self.empty_inputs,
            kinds=dict(self.kinds.most_common()),
            duplicates=self._pairs(repeats),
            near_duplicates=self._pairs(near_ones.rows, near_ones.similarity),
            scripts=self.scripts.counts(),
            worst=self._worst(),
            examples=self._examples(splits),
        )

    def _decided(self, ledger: Ledger | None, near_leaks: near.NearPairs) -> dict[str, Any]:
        """What a run would make of the rows, by the fields of `Inspection`."""
        if ledger is None:
            return dict.fromkeys(OF_SPLITS)
        dropped = [Dropped(*key, len(rows)) for key, rows in ledger.dropped.items()]
        near_ones = self._pairs(near_leaks.rows, near_leaks.similarity)
        leaks = map(self._pairs, (ledger.leaked, ledger.equal_prompts, ledger.val_leaked))
        num_cut = sum(map(len, ledger.cut.values()))
        return dict(zip(OF_SPLITS, (dropped, num_cut, near_ones, *leaks), strict=True))

    def _near(
        self, splits: dict[SplitName, np.ndarray], repeats: np.ndarray
    ) -> tuple[near.NearPairs, near.NearPairs]:
        """Near pairs of different entries: all of them, and test entries beside training ones."""
        split_of = np.zeros(len(self.numbers), np.int8)
        for place, split in enumerate(SPLITS):
            split_of[splits.get(split, [])] = place
        minima = np.concatenate(self._minima)
        pairs = near.candidates(minima, np.argsort(split_of, kind="stable"))
        pairs = pairs[~np.isin(pairs, repeats[:, 0]).any(axis=1)]
        crossing = split_of[pairs] == [SPLITS.index("train"), SPLITS.index("test")]
        found = near.near_pairs(pairs, minima, self._bare)
        between = near.near_pairs(pairs[crossing.all(axis=1)], minima, self._bare)
        # The later entry stands first, as in the ledger's pairs; so does the test entry.
        return (
            near.NearPairs(-np.sort(-found.rows, axis=1), found.similarity),
            near.NearPairs(between.rows[:, ::-1], between.similarity),
        )

    def _pairs(self, rows: np.ndarray, similarity: np.ndarray | None = None) -> Pairs:
        numbers = np.array(self.numbers)[rows[:SHOWN_PAIRS]].tolist()
        if similarity is not None:
            numbers = [
                [*pair, round(alike, 3)]
                for pair, alike in zip(numbers, similarity[:SHOWN_PAIRS].tolist(), strict=True)
            ]
        return Pairs(len(rows), numbers)

    def _worst(self) -> list[WorstEntry]:
        characters = np.array(self._characters)
        tokens = np.array([len(ids) for ids in self._bare])
        ratio = np.where(characters >= MIN_CHARACTERS, tokens / np.maximum(characters, 1), 0.0)
        return [
            WorstEntry(
                self.numbers[row],
                round(float(ratio[row]), 3),
                visible(get_tokenizer().decode(self._bare[row][:200].tolist())[:120]),
            )
            for row in np.argsort(-ratio, kind="stable")[:NUM_WORST].tolist()
            if ratio[row] > 0
        ]

    def _examples(self, splits: dict[SplitName, np.ndarray]) -> list[Example]:
        """Spread over the file, as a run would train on them."""
        columns = Columns.joined(self._columns)
        split_of = {int(row): split for split, rows in splits.items() for row in rows}
        masked = self.options.loss_on == "response"
        return [
            example_of(
                self.numbers[row],
                split_of.get(row, "train"),
                Row(
                    self._ids[row][: self.options.max_length].tolist(),
                    int(columns.prompt_lengths[row]) if masked else 0,
                ),
            )
            for row in spread(len(self.numbers), NUM_EXAMPLES)
        ]


def bare_text(entry: Entry) -> str:
    """An entry's own text, whatever the prompt style."""
    earlier = (text for _, text in entry.earlier)
    return "\n".join(filter(None, (*earlier, entry.instruction, entry.input, entry.output)))


def _repeats(hashes: np.ndarray) -> np.ndarray:
    """Pairs: a row, and the first that it repeats whole."""
    first = first_equal(hashes)
    rows = np.flatnonzero(first != np.arange(len(first)))
    return np.stack([rows, first[rows]], axis=1)
