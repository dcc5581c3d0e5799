"""A separable problem: every other token of a text says which of two labels it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import torch
from tiny import Notes, RecordingTracker, local_weights

from twolevers.classification.data import TEXTS_FILE, LabelledText
from twolevers.classification.options import ClassifyOptions
from twolevers.classification.records import ClassifierResult, LabelledData
from twolevers.classification.train import train_classifier
from twolevers.device import Device

CPU = Device("cpu", "a processor", 1, 0)
SIGNS = (5, 6)


class Elsewhere(Device):
    """The CPU under another name: what is done for devices that are not the CPU is done."""

    @property
    def kind(self) -> str:
        return "xpu"


def make_texts(count: int, seed: int = 0) -> list[LabelledText]:
    """Texts of 3 to 20 tokens, the label's own token at every other place."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    texts = []
    for number in range(count):
        ids = [draw(10, 97) for _ in range(draw(3, 20))]
        ids[::2] = [SIGNS[number % 2]] * len(ids[::2])
        texts.append(LabelledText(ids, number % 2))
    return texts


@dataclass
class Toy:
    """Trains in `root`; `train(...)` is one training call in a folder of its own."""

    root: Path
    weights: Path
    tracker: RecordingTracker = field(default_factory=RecordingTracker)
    device: Device = CPU
    precision: str = "float32"

    def data(self) -> LabelledData:
        splits = {"train": make_texts(64, 1), "val": make_texts(20, 2), "test": make_texts(20, 3)}
        rows = [(name, text) for name, texts in splits.items() for text in texts]
        table = pa.table(
            {
                "split": [name for name, _ in rows],
                "label": [text.label for _, text in rows],
                "token_ids": [text.token_ids for _, text in rows],
            }
        )
        pa.parquet.write_table(table, self.root / TEXTS_FILE)
        return LabelledData(
            path=self.root, sha256="0" * 64, data_sha256="0" * 64, dataset="toy",
            text_column="text", label_column="label", labels=("left", "right"), majority="left",
            num_rows=104, num_dropped=0, num_train=64, num_val=20, num_test=20, num_cut=0,
            num_repeated=0, longest=20, train_tokens=0,
        )  # fmt: skip

    def options(self, **training: Any) -> ClassifyOptions:
        recipe = {"learning_rate": 3e-3, "epochs": 2, **training}
        return ClassifyOptions.model_validate(
            {
                "model": "gpt2-nano (7M)",
                "device": "cpu",
                "precision": self.precision,
                "training": recipe,
            }
        )

    def train(
        self,
        folder: str = "run",
        stop_after: int | None = None,
        kill_after: int | None = None,
        **training: Any,
    ) -> ClassifierResult:
        progress = Notes(stop_after, kill_after)
        if stop_after == 0:
            progress.stop.request("SIGTERM")
        return train_classifier(
            local_weights(self.weights),
            self.data(),
            self.options(**training),
            device=self.device,
            folder=self.root / folder,
            tracker=self.tracker,
            progress=progress,
            stop=progress.stop,
        )
