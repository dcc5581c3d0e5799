"""Training jobs for the tests: see `tiny_job.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_job import JOBS, TINY, Job

from twolevers.data.batch import Row
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import save_model
from twolevers.records import TokenisedData
from twolevers.training import fine_tune as fine_tuning


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


@pytest.fixture
def new_job(
    tmp_path_factory: pytest.TempPathFactory, tiny_weights: Path, monkeypatch: pytest.MonkeyPatch
):
    """Makes jobs, each in a folder of its own. The rows stand for the tokenised folder."""

    def load_split(data: TokenisedData, split: str) -> list[Row]:
        job = JOBS[data.path]
        return {"train": job.train_rows, "val": job.val_rows}[split]

    monkeypatch.setattr(fine_tuning, "load_split", load_split)
    return lambda **fields: Job(tmp_path_factory.mktemp("job"), tiny_weights, **fields)


@pytest.fixture
def job(new_job) -> Job:
    return new_job()
