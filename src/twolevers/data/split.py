"""Splits: how many rows each has, and rows read from the tokenised folder without loading it.

A tokenised folder holds `rows.arrow` (every row in file order: entry, row number, tokens) and,
for each split, `<split>.npy`: which rows it has, in which order. Both are memory-mapped.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa

from twolevers.data.prompt import Entry
from twolevers.data.row import Row
from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.errors import InputError, Problem
from twolevers.records import ScoredSplit, SplitName, TokenisedData

ROWS_FILE = "rows.arrow"
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")
ROW_SCHEMA = pa.schema(
    [
        ("row_number", pa.int64()),
        ("instruction", pa.large_string()),
        ("input", pa.large_string()),
        ("output", pa.large_string()),
        ("kind", pa.large_string()),
        # A chat's earlier turns as JSON; empty where there are none.
        ("earlier", pa.large_string()),
        # Its answers to choose from, likewise.
        ("options", pa.large_string()),
        # Prompt, response and end of text, already cut to max_length.
        ("token_ids", pa.large_list(pa.uint16())),
        ("prompt_length", pa.int32()),
    ],
    metadata={"prompt_masked": "0"},
)


def split_rows(num_rows: int, *, seed: int | None) -> dict[SplitName, np.ndarray]:
    """Row indices of each split: 85 % train, then 10 % test, the rest val, as chapter 7.

    `seed` shuffles the rows before they are split; None keeps file order. A shuffled split keeps
    its rows in file order too.

    Raises:
        InputError: too few rows for every split to have one.
    """
    num_train, num_test = num_rows * 85 // 100, num_rows * 10 // 100
    if min(num_train, num_test, num_rows - num_train - num_test) < 1:
        raise InputError(
            Problem(
                "dataset",
                num_rows,
                "too few entries to split 85/10/5 into train, test and validation",
                "give at least 10 entries",
            )
        )
    order = np.arange(num_rows)
    if seed is not None:
        order = np.random.Generator(np.random.PCG64(seed)).permutation(num_rows)
    train, test, val = np.split(order, [num_train, num_train + num_test])
    return {"train": np.sort(train), "val": np.sort(val), "test": np.sort(test)}


def only_scored(num_rows: int) -> dict[SplitName, np.ndarray]:
    """Row indices of each split where nothing is trained and all is scored: every row is test."""
    none = np.arange(0)
    return {"train": none, "val": none, "test": np.arange(num_rows)}


class TokenisedSplit(Sequence[Row]):
    """One split's rows, or those of all in file order. Reads from the mapped file what is asked
    for and keeps nothing."""

    def __init__(self, folder: Path, split: ScoredSplit) -> None:
        self.split = split
        parts = [
            np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in (SPLITS if split == "all" else (split,))
        ]
        self._indices = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        reader = pa.ipc.open_file(pa.memory_map(str(folder / ROWS_FILE)))
        self._mask_prompt = reader.schema.metadata[b"prompt_masked"] == b"1"
        self._batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        self._starts = np.cumsum([0] + [batch.num_rows for batch in self._batches])
        self._tokens = functools.lru_cache(maxsize=256)(self._tokens_of_batch)

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, i: int) -> Row: ...
    @overload
    def __getitem__(self, i: slice) -> list[Row]: ...
    def __getitem__(self, i: int | slice) -> Row | list[Row]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        ids, prompt_length = self._row(i)
        return Row(ids.tolist(), prompt_length if self._mask_prompt else 0)

    def entry(self, i: int) -> Entry:
        """The entry as it was read."""
        batch, row = self._locate(i)
        names = ("instruction", "input", "output", "kind")
        entry = Entry(*(batch.column(name)[row].as_py() for name in names))
        earlier, options = (_listed(batch, name, row) for name in ("earlier", "options"))
        turns = tuple((role, text) for role, text in earlier)
        return replace(entry, earlier=turns, options=tuple(options))

    def prompt_ids(self, i: int) -> list[int]:
        """The prompt's tokens, to generate from: the row's own first tokens. Plain text has none
        and is begun as GPT-2 learnt to begin one: behind an end of text."""
        ids, prompt_length = self._row(i)
        return ids[:prompt_length].tolist() or [END_OF_TEXT]

    def row_number(self, i: int) -> int:
        """Which entry of the file it is, counted from 1."""
        batch, row = self._locate(i)
        return int(batch.column("row_number")[row].as_py())

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, prompt, response and end of text counted: (len,) int64."""
        parts = [np.diff(self._tokens(b)[1]) for b in range(len(self._batches))]
        return np.concatenate(parts)[self._indices] if parts else np.empty(0, np.int64)

    def _locate(self, i: int) -> tuple[pa.RecordBatch, int]:
        number, row = self._position(i)
        return self._batches[number], row

    def _position(self, i: int) -> tuple[int, int]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"row {i} of {len(self)}")
        index = int(self._indices[i])
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return number, index - int(self._starts[number])

    def _row(self, i: int) -> tuple[np.ndarray, int]:
        number, row = self._position(i)
        values, offsets, prompt_lengths = self._tokens(number)
        return values[offsets[row] : offsets[row + 1]], int(prompt_lengths[row])

    def _tokens_of_batch(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Views of one record batch: all its tokens, where each row's begin, prompt lengths."""
        column = self._batches[number].column("token_ids")
        return (
            column.values.to_numpy(zero_copy_only=True),
            column.offsets.to_numpy(zero_copy_only=True),
            self._batches[number].column("prompt_length").to_numpy(zero_copy_only=True),
        )


def _listed(batch: pa.RecordBatch, name: str, row: int) -> list[Any]:
    """What a column holds as JSON. Rows that a run kept before have no such column."""
    text = batch.column(name)[row].as_py() if name in batch.schema.names else ""
    return list(json.loads(text)) if text else []


def load_split(data: TokenisedData, split: ScoredSplit) -> TokenisedSplit:
    """One split of a tokenised data set, or all of it, memory-mapped."""
    return TokenisedSplit(data.path, split)
