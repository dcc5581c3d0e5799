"""Writes the embedded data set: `python -m twolevers.embedded.write_data`.

Deterministic: the same code writes the same bytes. The split is the chapter's, in file order
(85 % train, 10 % test, the rest validation); each round of entries holds every kind once, in
an order of its own, so that every split holds every kind in equal measure.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from twolevers.embedded import DATASET_PATH
from twolevers.embedded.kinds import KINDS, Example, Kind

NUM_ENTRIES = 1_100
ROUNDS = 44
"""Entries of each kind; a round holds each kind once."""
TRAIN_ROUNDS = 37
"""Rounds that lie in the training split from the first entry to the last."""
SEED = 7

Entry = dict[str, str]


def entries_of(kind: Kind) -> list[Entry]:
    """The entries of one kind, a round each, no two with the same source or subject. They do not
    depend on what other kinds there are."""
    rng = Random(f"{SEED} {kind.name}")
    seen: set[tuple[str, str]] = set()
    entries: list[Entry] = []
    while len(entries) < ROUNDS:
        example = kind.example(rng)
        asked = (example.source, "" if example.source else example.subject)
        if asked in seen or example.source == example.result:
            continue
        seen.add(asked)
        instruction = kind.instructions[len(entries) % len(kind.instructions)]
        entries.append(_entry(kind, instruction, example))
    rng.shuffle(entries)
    return entries


def _entry(kind: Kind, instruction: str, example: Example) -> Entry:
    return {
        "instruction": instruction.format(s=example.subject),
        "input": example.source,
        "output": example.result,
        "kind": kind.name,
    }


def make_entries() -> list[Entry]:
    """All entries, in file order."""
    rng = Random(SEED)
    columns = [entries_of(kind) for kind in KINDS if kind.asked]
    ordered: list[Entry] = []
    for row in range(ROUNDS):
        ordered += [column[row] for column in rng.sample(columns, len(columns))]
    return ordered


def split(entries: list[Entry]) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """Train, test, validation: the chapter's portions, in file order."""
    train, test = int(len(entries) * 0.85), int(len(entries) * 0.10)
    return entries[:train], entries[train : train + test], entries[train + test :]


def render(entries: list[Entry]) -> str:
    """The file's text: one entry a line, so that a change shows as one line."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    return f"[\n{lines}\n]\n"


def main(path: Path = DATASET_PATH) -> None:
    path.write_text(render(make_entries()), encoding="utf-8")


if __name__ == "__main__":
    main()
