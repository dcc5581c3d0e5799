"""Servers, ports and small data for the tests that break things."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command
from serving import Servers, read_until_ready

from twolevers.embedded import DATASET_PATH

SET_BY_USERS = ("PREFECT_API_URL", "PREFECT_UI_URL", "TWOLEVERS_TRACKING_URI")


def free_ports() -> list[int]:
    """Two of them."""
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in (one, other)]


@pytest.fixture
def ports() -> list[int]:
    """Two free ports."""
    return free_ports()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command over an empty home, with no server set."""
    for name in SET_BY_USERS:
        monkeypatch.delenv(name, raising=False)
    return Command(tmp_path)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of a test; what it leaves is killed, and what that had started ends by itself."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """One `twolevers up` over a home of its own, for all tests that leave it standing."""
    command = Command(tmp_path_factory.mktemp("up"))
    prefect, mlflow = free_ports()
    options = ["--prefect-port", str(prefect), "--mlflow-port", str(mlflow)]
    with pytest.MonkeyPatch.context() as patch:
        for name in SET_BY_USERS:
            patch.delenv(name, raising=False)
        process = command.start("up", *options)
    try:
        read_until_ready(process)
        yield Servers(command, process, *(f"http://127.0.0.1:{port}" for port in (prefect, mlflow)))
    finally:
        process.terminate()
        try:
            process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.fixture
def small_data(tmp_path: Path) -> Path:
    """The first 60 entries of the embedded data: 51 to train on, 6 steps an epoch."""
    entries = json.loads(DATASET_PATH.read_text(encoding="utf-8"))[:60]
    path = tmp_path / "small.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path
