"""Models small enough to be had in milliseconds, and an environment without the user's hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights
from huggingface_hub import constants
from loopback_hub import Hub

from twolevers.files import sha256_of
from twolevers.models.catalog import MODELS, ModelEntry, find_model
from twolevers.models.fetch import fetch_weights
from twolevers.progress import Silent
from twolevers.records import WeightsFolder
from twolevers.settings import Home

ENVIRONMENT = (
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
)


@pytest.fixture(autouse=True)
def no_hub_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other caches"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in the Hugging Face layout; not to be written to."""
    return write_random_weights(tmp_path_factory.mktemp("weights") / "tiny")


@pytest.fixture
def tiny_small(monkeypatch: pytest.MonkeyPatch) -> ModelEntry:
    """gpt2-small at a size for tests; no hash is pinned, as for medium and large."""
    name = find_model("gpt2-small").name
    entry = replace(MODELS[name], config=TINY, sha256=None)
    monkeypatch.setitem(MODELS, name, entry)
    return entry


@pytest.fixture
def pinned_small(
    monkeypatch: pytest.MonkeyPatch, tiny_small: ModelEntry, tiny_folder: Path
) -> ModelEntry:
    """The same with the pinned hash of what the hub below serves."""
    entry = replace(tiny_small, sha256=sha256_of(tiny_folder / "model.safetensors"))
    monkeypatch.setitem(MODELS, entry.name, entry)
    return entry


@pytest.fixture
def hub(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_folder: Path, tiny_small: ModelEntry
) -> Iterator[Hub]:
    """A hub on loopback that `HF_ENDPOINT` points to; it serves the tiny weights."""
    assert tiny_small.repo is not None
    repo = tmp_path / "hub" / tiny_small.repo
    repo.mkdir(parents=True)
    (repo / "model.safetensors").write_bytes((tiny_folder / "model.safetensors").read_bytes())
    with Hub(tmp_path / "hub") as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        yield running


@pytest.fixture
def quick_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client writes 10 MB at a time, and the files here are smaller; and it waits."""
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100_000)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def fetch(home: Home) -> Callable[[], WeightsFolder]:
    """Fetches gpt2-small's weights from wherever they are to be had."""
    return lambda: fetch_weights("gpt2-small", None, home, Silent())
