"""One Prefect server and small data for the tests of flows and command."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command

from flows.temporary_server import prefect_server
from twolevers.embedded import DATASET_PATH
from twolevers.settings import Home


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Prefect server for the tests that need none of their own."""
    before = {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}
    home = Home(tmp_path_factory.mktemp("prefect"))
    os.environ["PREFECT_HOME"] = str(home.prefect)
    with prefect_server(home) as wait_until_ready:
        wait_until_ready()
        address = os.environ["PREFECT_API_URL"]
        for name in ("PREFECT_HOME", "PREFECT_API_URL"):
            del os.environ[name]
        os.environ.update(before)
        yield address
        os.environ["PREFECT_API_URL"] = address


@pytest.fixture
def command(tmp_path: Path, server: str, prepared: Path) -> Command:
    """The command over a home without runs, with the shared server."""
    shutil.copytree(prepared / "mlflow", tmp_path / "mlflow")
    return Command(tmp_path, {"PREFECT_API_URL": server})


@pytest.fixture
def small_data(tmp_path: Path) -> Path:
    """The first 60 entries of the embedded data: 51 to train on, 6 steps an epoch."""
    entries = json.loads(DATASET_PATH.read_text(encoding="utf-8"))[:60]
    path = tmp_path / "small.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path
