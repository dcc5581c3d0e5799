"""A model of 97 tokens to classify with, and texts as tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from toy import TINY, Toy

from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import save_model


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
def toy(tmp_path: Path, tiny_weights: Path) -> Toy:
    return Toy(tmp_path, tiny_weights)
