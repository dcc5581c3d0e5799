"""The stage `tokenise` on 52,000 entries, as many as Stanford Alpaca has, against the plain way.

The plain way reads the file with `json`, calls `tiktoken` for one prompt and one response after
the other and keeps the rows as lists. The stage also checks every entry, looks for repeated ones,
splits, and writes rows and ledger to disk.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from benchmarks.job import data_file
from benchmarks.result import Result, median_of
from twolevers.data.fetch import fetch_dataset
from twolevers.data.prompt import Entry, find_style
from twolevers.data.split import SPLITS, load_split
from twolevers.data.tokenise import tokenise
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.records import TokenisedData
from twolevers.settings import Home

NUM_ENTRIES = 52_000
# Mixed entries may be equal by chance, in training and in the test split too.
OPTIONS = DataOptions(allow_leakage=True)


def measure(data: Path, runs: int = 3) -> list[Result]:
    """The stage, and the tokenizer alone, each against tiktoken called for one text at a time.

    What a process pays once (the vocabulary, imports) is in neither's time.
    """
    entries = mixed_entries(json.loads(data.read_text(encoding="utf-8")), NUM_ENTRIES)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "entries.json"
        file.write_text(json.dumps(entries, indent=4, ensure_ascii=False), encoding="utf-8")
        same = check_equal(file)
        ours, theirs = alternate(
            lambda: stage_seconds(file), lambda: seconds(lambda: plain(file)), runs
        )
    texts = list(chain.from_iterable(map(render, entries)))
    tokenizer = get_tokenizer()
    encode = tokenizer.encoding.encode_ordinary
    flat, each = alternate(
        lambda: seconds(lambda: tokenizer.encode_flat(texts)),
        lambda: seconds(lambda: [encode(text) for text in texts]),
        runs,
    )
    different = len({line for text in texts for line in text.split("\n")})
    work = f"tokenising {NUM_ENTRIES:,} entries"
    notes = [
        same,
        f"entries mixed out of {data.name}; {different:,} different lines",
        "one thread each; the stage also checks, compares, splits and writes",
    ]
    stage = Result(
        work,
        "`tiktoken` called entry by entry",
        ours,
        theirs,
        "s",
        runs,
        target=1.5,
        notes=notes,
    )
    alone = f"{work}, texts to ids alone"
    return [stage, Result(alone, "`tiktoken` called text by text", flat, each, "s", runs)]


def mixed_entries(originals: list[dict[str, str]], count: int) -> list[dict[str, str]]:
    """Entries of which each text begins as that of one original and ends as that of another.

    No pair of originals serves twice, so hardly an entry repeats another.
    """
    num = len(originals)
    if count > num * num:
        raise ValueError(f"{num} entries have fewer than {count} pairs; give more of them")
    entries = []
    for i in range(count):
        first, second = originals[i % num], originals[(7 * i + i // num) % num]
        names = ("instruction", "input", "output")
        entries.append({name: mixed(first.get(name, ""), second.get(name, "")) for name in names})
    return entries


def mixed(first: str, second: str) -> str:
    """The first half of the one's words, and the second half of the other's."""
    begin, end = first.split(" "), second.split(" ")
    return " ".join(begin[: (len(begin) + 1) // 2] + end[(len(end) + 1) // 2 :])


def render(item: dict[str, str]) -> tuple[str, str]:
    entry = Entry(item["instruction"], item["input"], item["output"])
    return find_style(OPTIONS.prompt_style).render(entry)


def plain(file: Path) -> list[list[int]]:
    """The rows the plain way."""
    encode = get_tokenizer().encoding.encode_ordinary
    rows = []
    for item in json.loads(file.read_text(encoding="utf-8")):
        prompt, response = render(item)
        rows.append([*encode(prompt), *encode(response), END_OF_TEXT])
    return rows


def run_stage(file: Path, home: Home) -> tuple[float, TokenisedData]:
    """Seconds that the stage takes, and its record. A fresh home has nothing in its cache."""
    dataset = fetch_dataset(str(file), home, Silent())
    gc.collect()
    began = time.perf_counter()
    data = tokenise(dataset, OPTIONS, seed=1, home=home, progress=Silent())
    return time.perf_counter() - began, data


def stage_seconds(file: Path) -> float:
    with tempfile.TemporaryDirectory() as home:
        return run_stage(file, Home(Path(home)))[0]


def check_equal(file: Path) -> str:
    """Both ways give the same token ids; how many, in words.

    Raises:
        ValueError: they don't.
    """
    expected, num_equal = plain(file), 0
    with tempfile.TemporaryDirectory() as home:
        _, data = run_stage(file, Home(Path(home)))
        for name in SPLITS:
            split = load_split(data, name)
            for i in range(len(split)):
                number = split.row_number(i)
                if list(split[i].token_ids) != expected[number - 1][: OPTIONS.max_length]:
                    raise ValueError(f"row {number} has other token ids than tiktoken gives it")
                num_equal += 1
    if num_equal != len(expected):
        raise ValueError(f"only {num_equal:,} of {len(expected):,} rows were kept")
    return f"the same {sum(map(len, expected)):,} token ids"


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def alternate(
    ours: Callable[[], float], theirs: Callable[[], float], runs: int
) -> tuple[float, float]:
    """The medians of both ways' readings, taken in turn."""
    readings = [(theirs(), ours()) for _ in range(runs)]
    return median_of([ours for _, ours in readings]), median_of([theirs for theirs, _ in readings])


if __name__ == "__main__":
    for result in measure(Path(sys.argv[1]) if len(sys.argv) > 1 else data_file()):
        print(
            f"{result.work}: {result.ours:.2f} s, {result.against}: {result.theirs:.2f} s, "
            f"{result.ratio:.2f} times as fast"
        )
        for note in result.notes:
            print(f"  {note}")
