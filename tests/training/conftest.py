"""Training jobs for the tests: see `tiny_job.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import one_thread, tiny_weights
from tiny_job import JOBS, Job

from twolevers.data.batch import Row
from twolevers.records import TokenisedData
from twolevers.training import fine_tune as fine_tuning

__all__ = ["one_thread", "tiny_weights"]  # fixtures of this folder too


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
