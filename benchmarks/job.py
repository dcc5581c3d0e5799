"""The work that is measured: the data, the batches, the weights."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twolevers.data.order import batch_order
from twolevers.data.prompt import Entry, find_style
from twolevers.data.row import Row
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.embedded import DATASET_PATH
from twolevers.models.catalog import find_model
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import save_model

BATCH_SIZE = 8
SEED = 123
NEW_TOKENS = 64


def data_file() -> Path:
    """Chapter 7's data where `BENCH_DATA` names it or where it lies beside the project; else the
    data set that comes with the project, which has as many entries of the same form."""
    beside = Path(__file__).parents[2] / "shared" / "data" / "instruction-data.json"
    if named := os.environ.get("BENCH_DATA"):
        return Path(named)
    return beside if beside.is_file() else DATASET_PATH


@dataclass(frozen=True)
class Job:
    """Rows of tokens, split as the chapter does: 85 % train, 10 % test, the rest val."""

    train: Sequence[Row]
    val: Sequence[Row]
    prompts: Sequence[list[int]]
    """Of the test split, to be answered."""

    @classmethod
    def read(cls, path: Path) -> Job:
        style, tokenizer = find_style("alpaca"), get_tokenizer()
        rows, prompts = [], []
        for item in json.loads(path.read_text(encoding="utf-8")):
            entry = Entry(item["instruction"], item.get("input", ""), item["output"])
            prompt, response = (tokenizer.encode(text) for text in style.render(entry))
            rows.append(Row([*prompt, *response, END_OF_TEXT]))
            prompts.append(prompt)
        train, test = len(rows) * 85 // 100, len(rows) * 10 // 100
        return cls(rows[:train], rows[train + test :], prompts[train : train + test])

    def batches(self, epoch: int = 0) -> list[list[Row]]:
        """An epoch's batches, in the order in which every contestant takes them."""
        order = batch_order(len(self.train), BATCH_SIZE, seed=SEED, epoch=epoch, drop_last=True)
        return [[self.train[i] for i in batch] for batch in order]


def write_weights(model: str, folder: Path) -> Path:
    """Random weights of that size, as the published folders have them."""
    folder.mkdir(parents=True)
    save_model(GPT2(find_model(model).config).initialise(SEED), folder)
    return folder
