"""The prepared tracking store in a home of each test's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from twolevers.settings import Home, Settings
from twolevers.tracking.store import Store, open_store


@pytest.fixture
def settings(home: Home) -> Settings:
    return Settings()


@pytest.fixture
def store(prepared: Path, home: Home, settings: Settings) -> Store:
    """The prepared store in this test's own home."""
    shutil.copytree(prepared / "mlflow", home.mlflow)
    return open_store(home, settings)


@pytest.fixture
def make_checkpoint() -> Callable[..., Path]:
    """Writes a folder that looks like a checkpoint of a run."""

    def make(folder: Path, name: str, weights: bytes = b"weights") -> Path:
        path = folder / "checkpoints" / name
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(weights)
        (path / "config.json").write_text("{}", encoding="utf-8")
        (path / "trainer_state.json").write_text("{}", encoding="utf-8")
        (path / "trainer_state.safetensors").write_bytes(b"moments")
        return path

    return make
