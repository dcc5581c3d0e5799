"""Rows to train the model of 97 tokens on, and training calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tiny import Notes, RecordingTracker, local_weights

from twolevers.data.batch import Row
from twolevers.device import Device
from twolevers.options import FineTuneOptions
from twolevers.records import TokenisedData, TrainingResult
from twolevers.training import fine_tune as fine_tuning

CPU = Device("cpu", "a processor", 2, 0)


def make_rows(count: int, seed: int = 0) -> list[Row]:
    """Rows of 3 to 40 tokens that a model can learn: each token decides the next."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        length, first = (
            int(torch.randint(*r, (), generator=generator)) for r in ((3, 40), (0, 97))
        )
        ids = [(first * pow(3, i, 97)) % 97 for i in range(length)]
        rows.append(Row(ids, min(2, length - 2)))
    return rows


@dataclass
class Job:
    """One run folder with tiny weights; `train(...)` is one training call in it."""

    root: Path
    weights: Path
    train_rows: list[Row] = field(default_factory=lambda: make_rows(44, 1))
    val_rows: list[Row] = field(default_factory=lambda: make_rows(9, 2))
    tracker: RecordingTracker = field(default_factory=RecordingTracker)
    progress: Notes = field(default_factory=Notes)
    device: Device = CPU
    run: dict[str, Any] = field(default_factory=dict)
    precision: str = "float32"

    def options(self, **training: Any) -> FineTuneOptions:
        recipe = {"learning_rate": 1e-2, "batch_size": 4, "epochs": 2, **training}
        return FineTuneOptions.model_validate(
            {
                "model": "gpt2-nano (8M)",
                "device": self.device.name,
                "precision": self.precision,
                "training": recipe,
                "run": self.run,
            }
        )

    def train(
        self,
        *,
        resume: bool = False,
        stop_after: int | None = None,
        kill_after: int | None = None,
        **training: Any,
    ) -> TrainingResult:
        self.progress = Notes(stop_after, kill_after)
        return fine_tuning.fine_tune(
            local_weights(self.weights),
            tokenised(self.root, self),
            self.options(**training),
            device=self.device,
            folder=self.root / "run",
            tracker=self.tracker,
            progress=self.progress,
            stop=self.progress.stop,
            resume=resume,
        )

    @property
    def checkpoints(self) -> Path:
        return self.root / "run" / "checkpoints"

    def names(self) -> set[str]:
        """What lies among the checkpoints."""
        return {path.name for path in self.checkpoints.iterdir()}

    def with_state(self) -> set[str]:
        """The checkpoints that hold trainer state."""
        return {path.parent.name for path in self.checkpoints.glob("[es]*/trainer_state.*")}


JOBS: dict[Path, Job] = {}


def tokenised(path: Path, job: Job) -> TokenisedData:
    JOBS[path] = job
    return TokenisedData(
        path=path,
        sha256="0" * 64,
        data_sha256="0" * 64,
        dataset="test",
        num_rows=0,
        num_train=len(job.train_rows),
        num_val=len(job.val_rows),
        num_test=0,
        num_dropped=0,
        num_cut=0,
        train_tokens=0,
        longest=0,
    )
