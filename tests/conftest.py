"""Fixtures for all tests. No test needs a network, a GPU or a file outside the clone."""

from __future__ import annotations

from pathlib import Path

import pytest

from twolevers.settings import Home


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
