"""A model of 97 tokens, and what watches its training: a whole training call takes half a second.

The fixtures are those of every folder whose conftest imports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch

from twolevers.files import sha256_of
from twolevers.interrupt import StopFlag
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import save_model
from twolevers.progress import Silent
from twolevers.records import WeightsFolder
from twolevers.tracking.protocol import NullTracker

TINY = GPT2Config(emb_dim=32, num_layers=2, num_heads=4, vocab_size=97, context_length=64)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices of 32 columns are done before a second thread has woken up."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    save_model(GPT2(TINY).initialise(3), folder)
    return folder


def local_weights(folder: Path) -> WeightsFolder:
    """A folder of weights as the fetch hands it on."""
    return WeightsFolder(
        model="gpt2-nano (8M)",
        path=folder,
        sha256=sha256_of(folder / "model.safetensors"),
        source="local",
        verified="local file",
    )


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

    def __init__(self, stop_after: int | None = None, kill_after: int | None = None) -> None:
        self.notes: list[str] = []
        self.stop_after, self.kill_after = stop_after, kill_after
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
