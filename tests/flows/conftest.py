"""The command as a user runs it: in a process of its own, with sockets open to loopback only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flows.temporary_server import prefect_server
from twolevers.embedded import DATASET_PATH
from twolevers.settings import Home

BLOCKED = Path(__file__).parent / "blocked"


@dataclass
class Command:
    """`twolevers` over one home folder."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, script: Path | None = None) -> subprocess.Popen[str]:
        what = [str(script)] if script else ["-m", "flows.cli"]
        return subprocess.Popen(
            [sys.executable, *what, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=self.home,
            env={
                **os.environ,
                "TWOLEVERS_HOME": str(self.home),
                "PYTHONPATH": str(BLOCKED),
                "COLUMNS": "120",
                **self.env,
            },
        )

    def run(
        self, *arguments: str, status: int = 0, script: Path | None = None, seconds: float = 240
    ) -> str:
        """Standard output of a command that must end with `status`."""
        process = self.start(*arguments, script=script)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{arguments} took over {seconds} s\n{out[-3000:]}\n{err[-3000:]}")
        assert process.returncode == status, f"{out[-3000:]}\n{err[-6000:]}"
        assert "Traceback" not in err, err
        return out if status == 0 else out + err

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))


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
def command(tmp_path: Path, server: str) -> Command:
    """The command over an empty home, with the shared server."""
    return Command(tmp_path, {"PREFECT_API_URL": server})


def write_entries(path: Path, entries: Sequence[dict[str, str]]) -> Path:
    path.write_text(json.dumps(list(entries)), encoding="utf-8")
    return path


@pytest.fixture
def small_data(tmp_path: Path) -> Path:
    """The first 60 entries of the embedded data: 51 to train on, 6 steps an epoch."""
    entries = json.loads(DATASET_PATH.read_text(encoding="utf-8"))[:60]
    return write_entries(tmp_path / "small.json", entries)
