"""What became of every row that was read: trained on, held out, or dropped and why.

The order of decisions: rows are split first, by their place in the file (or by the seed), as the
chapter does; what is dropped is then dropped within its split. So dropping a row moves no other
row to another split. A row repeats an earlier one wherever the two stand.

`rows_read = trained_on + held_out + dropped` always holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from twolevers.data.split import SPLITS
from twolevers.errors import InputError, Problem
from twolevers.options import DataOptions
from twolevers.records import DatasetFile, SplitName

SHOWN_PAIRS = 20


@dataclass(frozen=True)
class Columns:
    """What decides about rows, one value each: (N,) for N rows.

    `lengths` and `prompt_lengths` count tokens before anything is cut, end of text included in
    the first; `entry_hashes` are of prompt and output, `prompt_hashes` of the prompt alone, both
    int64 (that any two of a million rows agree by chance is a matter of 3 in 100 million).
    """

    lengths: np.ndarray
    prompt_lengths: np.ndarray
    entry_hashes: np.ndarray
    prompt_hashes: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Those of batches, one behind the other."""
        return cls(
            *(
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(cls)
            )
        )


@dataclass
class Ledger:
    """The splits' rows once all is decided, as indices counted from 0, and the account of it."""

    splits: dict[SplitName, np.ndarray]
    dropped: dict[tuple[SplitName, str], np.ndarray] = field(default_factory=dict)
    cut: dict[SplitName, np.ndarray] = field(default_factory=dict)
    duplicates: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Pairs: a row, and the first that it repeats whole."""
    leaked: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Pairs: a test row, and the training row that it equals whole."""
    equal_prompts: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Pairs: a test row, and a training row with its prompt and another output."""
    val_leaked: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))

    @property
    def num_dropped(self) -> int:
        return sum(len(rows) for rows in self.dropped.values())

    def as_dict(self, dataset: DatasetFile, options: DataOptions, seed: int) -> dict[str, Any]:
        """For `ledger.json`. Row numbers are counted from 1."""
        num = {split: len(self.splits[split]) for split in SPLITS}
        return {
            "dataset": dataset.name,
            "data_sha256": dataset.sha256,
            "options": options.model_dump(),
            "seed": seed if options.split == "shuffled" else None,
            "rows_read": sum(num.values()) + self.num_dropped,
            "trained_on": num["train"],
            "trained_on_cut": len(self.cut["train"]),
            "held_out": num["val"] + num["test"],
            "held_out_val": num["val"],
            "held_out_test": num["test"],
            "dropped": self.num_dropped,
            "dropped_rows": [
                {"split": split, "reason": reason, "rows": (rows + 1).tolist()}
                for (split, reason), rows in self.dropped.items()
            ],
            "cut_rows": {split: (self.cut[split] + 1).tolist() for split in SPLITS},
            "duplicates": _pairs(self.duplicates),
            "test_entries_in_training": _pairs(self.leaked),
            "test_prompts_in_training": _pairs(self.equal_prompts),
            "val_entries_in_training": _pairs(self.val_leaked),
        }


def _pairs(pairs: np.ndarray) -> dict[str, Any]:
    return {"count": len(pairs), "first": (pairs[:SHOWN_PAIRS] + 1).tolist()}


def decide(
    splits: dict[SplitName, np.ndarray],
    columns: Columns,
    options: DataOptions,
    numbers: np.ndarray | None = None,
) -> Ledger:
    """Drop what must be dropped, count what must be known, refuse what leaks.

    Args:
        numbers: of the rows in the file (N,), where not all of that is here.

    Raises:
        InputError: nothing is left in a split, or test entries stand whole in training.
    """
    ledger = account(splits, columns, options)
    _refuse_empty(ledger)
    if len(ledger.leaked) and not options.allow_leakage:
        raise _leakage(ledger.leaked + 1 if numbers is None else numbers[ledger.leaked])
    return ledger


def account(splits: dict[SplitName, np.ndarray], columns: Columns, options: DataOptions) -> Ledger:
    """What `decide` comes to, refused or not."""
    ledger = Ledger(dict(splits))
    first = first_equal(columns.entry_hashes)
    repeats = first != np.arange(len(first))
    ledger.duplicates = _paired(np.flatnonzero(repeats), first)
    no_answer = columns.prompt_lengths >= options.max_length
    filled = f"its prompt alone fills max_length ({options.max_length} tokens)"
    for split in SPLITS:
        if options.drop_duplicates:
            _drop(ledger, split, repeats, "repeats an earlier entry whole")
        # A row with no token of its answer left has no loss over the response, and a prompt
        # without its end can't be answered; for loss over everything it is a row like another.
        if options.loss_on == "response" or split == "test":
            _drop(ledger, split, no_answer, filled)
        rows = ledger.splits[split]
        ledger.cut[split] = rows[columns.lengths[rows] > options.max_length]
    train, test, val = (ledger.splits[split] for split in ("train", "test", "val"))
    ledger.leaked = _standing_in(train, test, columns.entry_hashes)
    ledger.val_leaked = _standing_in(train, val, columns.entry_hashes)
    prompts = _standing_in(train, test, columns.prompt_hashes)
    ledger.equal_prompts = prompts[~np.isin(prompts[:, 0], ledger.leaked[:, 0])]
    return ledger


def first_equal(hashes: np.ndarray) -> np.ndarray:
    """For each row the first row with the same hash, itself where it is the first: (N,)."""
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    return first[group]


def _paired(rows: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.stack([rows, first[rows]], axis=1)


def _standing_in(train: np.ndarray, held_out: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Pairs: each held-out row that has an equal in training, and the first such."""
    order = np.concatenate([train, held_out])
    first = first_equal(hashes[order])[len(train) :]
    found = first < len(train)
    return np.stack([held_out[found], order[first[found]]], axis=1)


def _drop(ledger: Ledger, split: SplitName, condition: np.ndarray, reason: str) -> None:
    rows = ledger.splits[split]
    if condition[rows].any():
        ledger.dropped[split, reason] = rows[condition[rows]]
        ledger.splits[split] = rows[~condition[rows]]


def _refuse_empty(ledger: Ledger) -> None:
    problems = []
    for split in SPLITS:
        if not len(ledger.splits[split]):
            why = " and ".join(
                f"{len(rows)} row{'s' * (len(rows) != 1)} dropped ({reason})"
                for (name, reason), rows in ledger.dropped.items()
                if name == split
            )
            way_out = "give longer texts room with --max-length, or more data"
            what = f"nothing is left of it: {why}"
            if why:  # else it was to be empty: nothing is trained
                problems.append(Problem(f"{split} split", None, what, way_out))
    if problems:
        raise InputError(problems)


def _leakage(leaked: np.ndarray) -> InputError:
    """Of pairs of row numbers (N, 2), test and training."""
    way_out = "remove one of them, use --drop-duplicates, or train all the same: --allow-leakage"
    problems = [
        Problem(f"row {test} (test)", None, f"stands whole in training, as row {train}", way_out)
        for test, train in leaked[:SHOWN_PAIRS].tolist()
    ]
    if len(leaked) > SHOWN_PAIRS:
        what = f"{len(leaked) - SHOWN_PAIRS} more test rows do ({len(leaked)} in all)"
        problems.append(Problem("test split", None, what, way_out))
    return InputError(problems)
