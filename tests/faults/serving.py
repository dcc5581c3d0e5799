"""What runs while `twolevers up` serves, asked as its pages ask: through the servers' addresses."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from command import Command

from twolevers.settings import Home, Settings
from twolevers.tracking.queries import find_flow_run
from twolevers.tracking.store import open_store

PATIENCE = 300.0
"""Seconds that a slow, loaded machine may take for what takes a few."""
END_STATES = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")
T = TypeVar("T")


def wait_until(met: Callable[[], T | None], what: str, seconds: float = PATIENCE) -> T:
    """Poll until `met` gives something true, which is returned."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := met():
            return found
        time.sleep(0.1)
    pytest.fail(f"not within {seconds:g} s: {what}")


def read_until_ready(process: subprocess.Popen[str]) -> str:
    """What `twolevers up` says until it serves."""
    return read_until(process, "Ready")


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What a process prints up to the line that holds `text`."""
    shown = ""
    assert process.stdout
    for line in process.stdout:
        shown += line
        if text in line:
            return shown
    pytest.fail(f"{text!r} never came: {shown}\n{process.communicate()[1]}")


def is_living(pid: int) -> bool:
    """Whether a process lives; one that has ended and was not waited for does not."""
    state = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Servers:
    """A `twolevers up` that is ready, and the flow runs on it."""

    command: Command
    process: subprocess.Popen[str]
    prefect: str
    mlflow: str

    @property
    def home(self) -> Home:
        return Home(self.command.home)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return self._ask("POST", path, json=body or {})

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        def answer() -> httpx.Response | None:
            found = httpx.request(method, f"{self.prefect}/api{path}", timeout=60, **body)
            return None if found.status_code == 503 else found  # its database is busy: ask again

        return wait_until(answer, f"{path} is answered").raise_for_status().json()

    def press_run(
        self, deployment: str, environment: dict[str, str] | None = None, **parameters: Any
    ) -> str:
        """As the form does; the flow run's id.

        Args:
            environment: of the run's process, beside what its worker has.
        """
        listed = self.post("/deployments/filter")
        found = next(one["id"] for one in listed if one["name"] == deployment)
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        if environment:
            body["job_variables"] = {"env": environment}
        return str(self.post(f"/deployments/{found}/create_flow_run", body)["id"])

    def deploy_file(self, name: str, file: Path) -> None:
        """A deployment of the flow `fine_tune` in `file`, run by the worker of the pool `cpu`."""
        here = {"prefect.deployments.steps.set_working_directory": {"directory": str(file.parent)}}
        deployment = {
            "name": name,
            "flow_id": self.post("/flows/", {"name": "fine-tune"})["id"],
            "work_pool_name": "cpu",
            "entrypoint": f"{file.name}:fine_tune",
            "pull_steps": [here],
        }
        self.post("/deployments/", deployment)

    def press_cancel(self, flow_run: str) -> None:
        """As the page does."""
        state = {"type": "CANCELLING", "name": "Cancelling"}
        answer = self.post(f"/flow_runs/{flow_run}/set_state", {"state": state})
        assert answer["status"] == "ACCEPT", answer

    def state(self, flow_run: str) -> str:
        """`RUNNING`, `COMPLETED`, …"""
        return str(self.get(f"/flow_runs/{flow_run}")["state"]["type"])

    def wait_for_end(self, flow_run: str, expected: str, seconds: float = PATIENCE) -> None:
        """Fails, with the run's log, where it ends otherwise."""
        end = wait_until(
            lambda: next((end for end in END_STATES if self.state(flow_run) == end), None),
            f"{flow_run} ends",
            seconds,
        )
        found = self.get(f"/flow_runs/{flow_run}")["state"]
        assert end == expected, f"{found['message']}\n" + "\n".join(self.log(flow_run))

    def log(self, flow_run: str) -> list[str]:
        """The run's log as its page shows it by now, oldest first."""
        return [line["message"] for line in self._log_lines(flow_run)]

    def whole_log(self, flow_run: str) -> list[str]:
        """The log of a flow that returned, once its last line is there. Prefect sends lines beside
        the run: after its server was away they come up to a minute behind the run's state."""

        def is_whole() -> bool:
            return any(
                line["task_run_id"] is None and line["message"].startswith("Finished in state")
                for line in self._log_lines(flow_run)
            )

        wait_until(is_whole, f"the last line of the log of {flow_run}")
        return self.log(flow_run)

    def _log_lines(self, flow_run: str) -> list[dict[str, Any]]:
        only = {"logs": {"flow_run_id": {"any_": [flow_run]}}, "sort": "TIMESTAMP_ASC"}
        return self.post("/logs/filter", only)

    def wait_for_log(self, flow_run: str, text: str, seconds: float = PATIENCE) -> None:
        """Until a line holds `text`; fails where the run ends without."""

        def logged() -> bool:
            if any(text in line for line in self.log(flow_run)):
                return True
            if self.state(flow_run) in END_STATES:
                lines = self.whole_log(flow_run)
                assert any(text in line for line in lines), "\n".join(lines)
                return True
            return False

        wait_until(logged, f"{text!r} in the log of {flow_run}", seconds)

    def task_states(self, flow_run: str) -> dict[str, str]:
        """State of each stage, by its name."""
        only = {"flow_runs": {"id": {"any_": [flow_run]}}}
        return {one["name"]: one["state_type"] for one in self.post("/task_runs/filter", only)}

    def tracked(self, flow_run: str) -> Any:
        """MLflow's run that the flow run worked on."""
        run_id = find_flow_run(flow_run, self.home, Settings())
        assert run_id, "no MLflow run bears the flow run's id"
        return open_store(self.home, Settings()).client.get_run(run_id)
