"""Fixtures for all tests. No test needs a network, a GPU or a file outside the clone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from twolevers.settings import Home, Settings
from twolevers.tracking.store import open_store


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Devices' locks of this worker's own: no run waits for another worker's or the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWOLEVERS_SLOTS", str(tmp_path_factory.mktemp("slots")))
        yield


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a tracking store: made once, then copied, which itself is a moved home."""
    root = tmp_path_factory.mktemp("prepared")
    open_store(Home(root), Settings(choose_model="gpt2-nano"))
    return root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home folder of this test's own."""
    root = tmp_path / "home"
    root.mkdir()
    monkeypatch.setenv("TWOLEVERS_HOME", str(root))
    return Home(root)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that two workers end together."""
    items.sort(key=lambda item: "flows" not in item.path.parts)
