"""A model of 97 tokens and rows to train it on: a whole training call takes half a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from twolevers.data.batch import Row
from twolevers.device import Device
from twolevers.files import sha256_of
from twolevers.interrupt import StopFlag
from twolevers.models.catalog import GPT2Config
from twolevers.options import FineTuneOptions
from twolevers.progress import Silent
from twolevers.records import TokenisedData, TrainingResult, WeightsFolder
from twolevers.tracking.protocol import NullTracker
from twolevers.training import fine_tune as fine_tuning

TINY = GPT2Config(emb_dim=32, num_layers=2, num_heads=4, vocab_size=97, context_length=64)
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


class RecordingTracker(NullTracker):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics: list[tuple[int, int, dict[str, float]]] = []
        self.checkpoints: list[tuple[Path, int, dict[str, float]]] = []

    def log_metrics(self, metrics: Mapping[str, float], *, step: int, tokens: int = 0) -> None:
        self.metrics.append((step, tokens, dict(metrics)))

    def log_checkpoint(self, path: Path, *, step: int, metrics: Mapping[str, float]) -> None:
        assert (path / "model.safetensors").is_file()
        self.checkpoints.append((path, step, dict(metrics)))

    def values(self, name: str) -> dict[int, float]:
        return {step: metrics[name] for step, _, metrics in self.metrics if name in metrics}


class Notes(Silent):
    """Remembers notes; stops training after so many steps if asked to."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.stop_after: int | None = None
        self.kill_after: int | None = None
        self.stop = StopFlag()
        self.finished = False

    def advance(self, done: int, **figures: float) -> None:
        assert set(figures) == {"loss", "tokens_per_second"}
        if done == self.stop_after:
            self.stop.request("SIGTERM")
        if done == self.kill_after:
            raise Killed

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finish(self) -> None:
        self.finished = True


class Killed(BaseException):
    """Stands for whatever ends a process between two lines of Python."""


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
        self.progress = Notes()
        self.progress.stop_after, self.progress.kill_after = stop_after, kill_after
        return fine_tuning.fine_tune(
            WeightsFolder(
                model="gpt2-nano (8M)",
                path=self.weights,
                sha256=sha256_of(self.weights / "model.safetensors"),
                source="local",
                verified="local file",
            ),
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
