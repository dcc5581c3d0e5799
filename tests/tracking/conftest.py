"""A home with a prepared tracking store: made once, then copied, which itself is a moved home."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from twolevers.settings import Home, Settings
from twolevers.tracking.store import Store, open_store


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("prepared")
    open_store(Home(root), Settings(choose_model="gpt2-nano"))
    return root


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
