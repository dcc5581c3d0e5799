"""Entries to a folder of tokens, read once and written as they come.

Nothing here holds more than a few thousand rows, whatever the file's size: rows go to disk in
file order, and a split is a list of row indices made when all have been seen.

All in one thread: only tiktoken, a quarter of the work, lets others run meanwhile. Reading the
next batch in another thread was hardly faster on two free cores, and slower on busy ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from twolevers.data.ledger import Columns, Ledger, decide
from twolevers.data.mapping import parse_map
from twolevers.data.prompt import Entry, PromptStyle, find_style
from twolevers.data.read import Entries
from twolevers.data.split import (
    ROW_SCHEMA,
    ROWS_FILE,
    SPLITS,
    TokenisedSplit,
    only_scored,
    split_rows,
)
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.errors import InputError, Problem, TwoleversError
from twolevers.files import atomic_folder, hash_of, read_json, sha256_of, write_json
from twolevers.options import DataOptions
from twolevers.progress import Progress
from twolevers.records import DatasetFile, ScoredSplit, TokenisedData
from twolevers.settings import Home

DATA_VERSION = 5
"""Raise it when the same data and settings come to give other files."""

RECORD_FILE, LEDGER_FILE = "record.json", "ledger.json"
_BATCH_ROWS = 4096
_BATCH_CHARS = 2_000_000


_PROBES = (
    Entry("instruction", "", "output"),
    Entry("instruction", "input", "output"),
    Entry("last", "", "output", "", (("system", "s"), ("user", "first"), ("assistant", "answer"))),
)
"""A prompt style is told by what it makes of these."""


class _MadeMeanwhile(Exception):  # noqa: N818 - no error
    """Another process has finished the same folder first."""


def tokenise(
    dataset: DatasetFile,
    options: DataOptions,
    *,
    seed: int,
    home: Home,
    progress: Progress,
    whole: bool = False,
) -> TokenisedData:
    """The dataset's rows as tokens, split, with the ledger; from the cache if made before.

    A row is the prompt's tokens, the response's tokens and the end-of-text token, cut to
    `max_length`. `seed` matters for a shuffled split only.

    Args:
        whole: every row is a test row: nothing is trained, and one entry is enough.

    Raises:
        InputError: rows that are no entries, too few of them, nothing left of a split, test
            entries that stand in training, an unknown prompt style.
        TwoleversError: the cache cannot be written.
    """
    style = find_style(options.prompt_style)
    mapping = parse_map(options.map)
    probes = [style.render(probe) for probe in _PROBES]
    settings = options.model_dump() | {
        "map": mapping,
        "seed": seed if options.split == "shuffled" else None,
    }
    key = hash_of([DATA_VERSION, dataset.sha256, settings, probes, *(["whole"] if whole else [])])
    path = home.cache / "tokenised" / key
    if found := _reuse(path, dataset):
        progress.note(f"tokens of {dataset.name} taken from the cache")
        return found
    try:
        with atomic_folder(path) as folder:
            record = _build(folder, key, dataset, options, style, seed, progress, whole)
            write_json(folder / RECORD_FILE, record.model_dump(mode="json", exclude={"path"}))
            if _reuse(path, dataset):
                raise _MadeMeanwhile
    except (_MadeMeanwhile, OSError) as error:
        if found := _reuse(path, dataset):
            return found
        raise TwoleversError(
            f"{path} cannot be written: {error}. Free or open that folder, or name another home: "
            "TWOLEVERS_HOME"
        ) from error
    return record.model_copy(update={"path": path})


def dropped_rows(data: TokenisedData, split: ScoredSplit) -> dict[str, int]:
    """How many rows were dropped from a split, or from all, by the reason."""
    found: dict[str, int] = {}
    file = data.path / LEDGER_FILE
    for one in read_json(file)["dropped_rows"] if file.is_file() else ():
        if split in ("all", one["split"]):
            found[one["reason"]] = found.get(one["reason"], 0) + len(one["rows"])
    return found


def _reuse(path: Path, dataset: DatasetFile) -> TokenisedData | None:
    """The record of a folder that is there and can be read, else None."""
    with suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        stored = read_json(path / RECORD_FILE) | {"path": path, "dataset": dataset.name}
        record = TokenisedData.model_validate(stored)
        sizes = (record.num_train, record.num_val, record.num_test)
        if tuple(len(TokenisedSplit(path, split)) for split in SPLITS) == sizes:
            return record
    return None


def _build(
    folder: Path,
    key: str,
    dataset: DatasetFile,
    options: DataOptions,
    style: PromptStyle,
    seed: int,
    progress: Progress,
    whole: bool,
) -> TokenisedData:
    entries = Entries(dataset.path, parse_map(options.map))
    if entries.shape.name != "alpaca":
        progress.note(f"{dataset.name} is read as {entries.shape}")
    columns = _write_rows(folder / ROWS_FILE, entries, options, style, progress)
    if sha256_of(dataset.path) != dataset.sha256:
        what, way_out = "changed while it was read", "start again when nothing writes to it"
        raise InputError(Problem("dataset", str(dataset.path), what, way_out))
    num_rows = len(columns.lengths)
    shuffle_seed = seed if options.split == "shuffled" else None
    splits = only_scored(num_rows) if whole else split_rows(num_rows, seed=shuffle_seed)
    ledger = decide(splits, columns, options)
    for split in SPLITS:
        np.save(folder / f"{split}.npy", ledger.splits[split], allow_pickle=False)
    shape = str(entries.shape)
    write_json(folder / LEDGER_FILE, ledger.as_dict(dataset, options, seed) | {"shape": shape})
    return _record(folder, key, dataset, shape, options, columns, ledger)


def _record(
    folder: Path,
    key: str,
    dataset: DatasetFile,
    shape: str,
    options: DataOptions,
    columns: Columns,
    ledger: Ledger,
) -> TokenisedData:
    lengths = np.minimum(columns.lengths[ledger.splits["train"]], options.max_length)
    return TokenisedData(
        path=folder,
        sha256=key,
        data_sha256=dataset.sha256,
        dataset=dataset.name,
        shape=shape,
        num_rows=len(columns.lengths),
        num_train=len(ledger.splits["train"]),
        num_val=len(ledger.splits["val"]),
        num_test=len(ledger.splits["test"]),
        num_dropped=ledger.num_dropped,
        num_cut=len(ledger.cut["train"]),
        train_tokens=int(lengths.sum()),
        longest=int(lengths.max(initial=0)),
        num_duplicates=len(ledger.duplicates),
        num_equal_prompts=len(ledger.equal_prompts),
        num_leaked=len(ledger.leaked),
    )


def _write_rows(
    path: Path, entries: Entries, options: DataOptions, style: PromptStyle, progress: Progress
) -> Columns:
    """Render, tokenise and write every entry, a batch at a time."""
    masked = b"1" if options.loss_on == "response" else b"0"
    schema = ROW_SCHEMA.with_metadata({b"prompt_masked": masked})
    parts: list[Columns] = []
    num_rows = 0
    progress.start("tokenise", None, "entries")
    try:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for numbers, batch in batches(entries):
                rows, part = _encode(numbers, batch, style, options.max_length)
                writer.write_batch(rows.cast(schema))
                parts.append(part)
                num_rows += len(part.lengths)
                progress.advance(num_rows)
            entries.check()
    finally:
        progress.finish()
    return Columns.joined(parts)


def _encode(
    numbers: list[int], entries: list[Entry], style: PromptStyle, max_length: int
) -> tuple[pa.RecordBatch, Columns]:
    """Entries as they are written, and what decides about their rows."""
    ids, ends, columns = encode_entries(entries, style)
    prompt_lengths = columns.prompt_lengths
    ids, ends = _cut(ids, ends, max_length)
    earlier, options = (
        [json.dumps(listed) if listed else "" for listed in column]
        for column in ([e.earlier for e in entries], [e.options for e in entries])
    )
    rows = {
        "row_number": pa.array(numbers, pa.int64()),
        **{
            name: pa.array([getattr(entry, name) for entry in entries], pa.large_string())
            for name in ("instruction", "input", "output", "kind")
        },
        "earlier": pa.array(earlier, pa.large_string()),
        "options": pa.array(options, pa.large_string()),
        "token_ids": pa.LargeListArray.from_arrays(np.append(0, ends), pa.array(ids)),
        "prompt_length": np.minimum(prompt_lengths, max_length).astype(np.int32),
    }
    return pa.record_batch(rows), columns


def encode_entries(
    entries: list[Entry], style: PromptStyle
) -> tuple[np.ndarray, np.ndarray, Columns]:
    """Rows' tokens end to end, uncut, where each row ends, and what decides about the rows."""
    rendered = [style.render(entry) for entry in entries]
    ids, ends, prompt_lengths = _token_columns(rendered)
    # Python's hash of a text is another in each process: good to compare by, not to store.
    columns = Columns(
        np.diff(ends, prepend=0),
        prompt_lengths,
        np.array([hash(pair) for pair in rendered]),
        # Plain texts have no prompt in common.
        np.array([hash(pair[0] or pair) for pair in rendered]),
    )
    return ids, ends, columns


def batches(source: Iterable[tuple[int, Entry]]) -> Iterator[tuple[list[int], list[Entry]]]:
    """Row numbers and entries in batches bounded in rows and in characters."""
    numbers: list[int] = []
    entries: list[Entry] = []
    size = 0
    for number, entry in source:
        numbers.append(number)
        entries.append(entry)
        size += len(entry.instruction) + len(entry.input) + len(entry.output)
        size += sum(len(text) for _, text in entry.earlier)
        if len(entries) == _BATCH_ROWS or size > _BATCH_CHARS:
            yield numbers, entries
            numbers, entries, size = [], [], 0
    if entries:
        yield numbers, entries


def _token_columns(
    rendered: list[tuple[str, str]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows' tokens end to end, where each row ends, and the tokens of each prompt.

    Prompt and response are encoded apart, so that what the model is given to answer is the very
    beginning of the row that it was trained on.
    """
    ids, lengths = get_tokenizer().encode_flat(list(chain.from_iterable(rendered)))
    pairs = lengths.reshape(-1, 2)
    ends = np.cumsum(pairs.sum(axis=1))
    ids = np.insert(ids, ends, np.uint16(END_OF_TEXT))
    return ids, ends + np.arange(1, len(ends) + 1), pairs[:, 0]


def _cut(ids: np.ndarray, ends: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Each row's first `max_length` tokens. A row that is cut has lost its end of text."""
    lengths = np.diff(ends, prepend=0)
    if lengths.max() <= max_length:
        return ids, ends
    places = np.arange(len(ids)) - np.repeat(ends - lengths, lengths)
    return ids[places < max_length], np.cumsum(np.minimum(lengths, max_length))
