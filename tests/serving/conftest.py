"""A small model whose every step a test can hold back, and engines over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gate import Gate, open_gates
from helpers import TINY, write_random_weights

from twolevers.device import find_device
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.serving.engine import Engine


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With GPT-2's own vocabulary, so that it can be asked in words."""
    return write_random_weights(tmp_path_factory.mktemp("weights") / "tiny", TINY, seed=3)


@pytest.fixture(scope="session")
def model(folder: Path) -> GPT2:
    return load_model(folder).eval()


@pytest.fixture
def gate(model: GPT2) -> Iterator[Gate]:
    gate = Gate(model)
    yield gate
    gate.remove()


@pytest.fixture
def make_engine(model: GPT2) -> Iterator[Callable[..., Engine]]:
    """Engines that are closed after the test; one that a test holds back is let go first."""
    engines = []

    def make(of: GPT2 = model, **limits: float) -> Engine:
        engines.append(Engine(of, find_device("cpu"), **limits))  # type: ignore[arg-type]
        return engines[-1]

    yield make
    for engine in engines:
        open_gates(engine.model)
        engine.close()
