"""What `twolevers up` runs for the tests of a session, asked over its API."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from command import Command
from tenacity import retry, stop_after_delay, wait_fixed

from twolevers.settings import Home, Settings
from twolevers.tracking.queries import find_flow_run, find_run
from twolevers.tracking.run_info import RunInfo


def wait_until(what: str, found: Callable[[], Any], seconds: float = 300) -> Any:
    """What `found` returns, as soon as it is true; the test fails where it never is."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > deadline:
            pytest.fail(f"not in {seconds:.0f} s: {what}")
        time.sleep(0.1)
    return value


@dataclass
class Servers:
    """Both servers and the worker, over one home."""

    command: Command
    prefect: str
    mlflow: str

    def read(self, path: str) -> Any:
        """One thing of Prefect's."""
        return self._ask("GET", path)

    def find(self, what: str, **wanted: Any) -> list[dict[str, Any]]:
        """`deployments`, `flow_runs`, `task_runs`, `artifacts` that a filter lets through."""
        found: list[dict[str, Any]] = self._ask("POST", f"/{what}/filter", wanted)
        return found

    @retry(stop=stop_after_delay(120), wait=wait_fixed(1), reraise=True)
    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Asked again where the server has too much to do (503), as on a machine that is busy."""
        answer = httpx.request(method, f"{self.prefect}/api{path}", json=body, timeout=60)
        return answer.raise_for_status().json()

    def of_run(self, what: str, flow_run: str) -> list[dict[str, Any]]:
        """A flow run's task runs or artifacts."""
        return self.find(what, flow_runs={"id": {"any_": [flow_run]}})

    def tracked(self, flow_run: str) -> RunInfo:
        """The MLflow run of a flow run."""
        return find_run(flow_run, Home(self.command.home), Settings())

    def run_folder(self, flow_run: str) -> Path | None:
        """Where it keeps its files; None before it has been opened."""
        home = Home(self.command.home)
        run_id = find_flow_run(flow_run, home, Settings())
        return home.run_folder(run_id) if run_id else None


@contextmanager
def servers_up(home: Path) -> Iterator[Servers]:
    """`twolevers up` on free ports until the block ends."""
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        ports = [str(probe.getsockname()[1]) for probe in (one, other)]
    command = Command(home)
    process = command.start("up", "--prefect-port", ports[0], "--mlflow-port", ports[1])
    try:
        assert process.stdout
        shown = ""
        while not (line := process.stdout.readline()).startswith("Ready"):
            shown += line
            if not line:
                pytest.fail(f"up ended: {shown}\n{process.communicate()[1]}")
        yield Servers(command, *(f"http://127.0.0.1:{port}" for port in ports))
        command.run("down")
        process.communicate(timeout=60)
    finally:
        process.kill()  # what it had started ends by itself
        process.communicate()
