"""`twolevers up`, `down` and `status`: one start for all that can be seen of it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
from command import Command
from serving import is_living, read_until_ready

from flows.running import last_record, server_address
from flows.server_process import children_of
from flows.temporary_server import prefect_server
from twolevers.settings import Home

FLOWS = ("fine-tune", "classify", "rerun", "evaluate", "run-time-table")
DEPLOYMENTS = {*FLOWS, *(f"{name}-cuda" for name in FLOWS)}


def test_nothing_runs(command: Command) -> None:
    lines = command.run("status", status=1).splitlines()
    assert [line.split() for line in lines] == [
        [name, "not", "running"] for name in ("Prefect", "MLflow", "worker")
    ]
    assert command.run("down") == "Nothing runs.\n"


def test_a_taken_port_is_said_in_one_line(command: Command, ports: list[int]) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", ports[0]))
        holder.listen()
        taken, free = (str(port) for port in ports)
        message = command.run("up", "--prefect-port", taken, "--mlflow-port", free, status=2)
    line = next(line for line in message.splitlines() if taken in line)
    assert "taken by" in line
    assert f"(pid {os.getpid()})" in line or not Path("/proc").is_dir()
    assert "--prefect-port" in line
    assert command.run("status", status=1).count("not running") == 3


def test_up_serves_until_down(
    command: Command, ports: list[int], started: list[subprocess.Popen[str]]
) -> None:
    options = ["--prefect-port", str(ports[0]), "--mlflow-port", str(ports[1])]
    prefect, mlflow = (f"http://127.0.0.1:{port}" for port in ports)

    first = command.start("up", *options)
    started.append(first)
    shown = read_until_ready(first)
    assert prefect in shown
    assert mlflow in shown
    assert httpx.get(f"{prefect}/api/health").json() is True
    assert httpx.get(f"{mlflow}/health").text == "OK"
    assert set(_deployments(prefect)) == DEPLOYMENTS
    assert _online_workers(prefect, "cpu") == 1
    assert _schedules(prefect) == {"weekly": False, "nightly": False}

    status = command.run("status")
    assert prefect in status
    assert mlflow in status
    assert status.count("pid ") == 3
    home = Home(command.home)
    assert server_address(home, "MLflow") == mlflow
    with prefect_server(home) as wait_until_ready:
        wait_until_ready()
        assert os.environ["PREFECT_API_URL"] == f"{prefect}/api"
        assert os.environ["PREFECT_UI_URL"] == prefect
    assert "PREFECT_API_URL" not in os.environ

    _switch_on(prefect, "rerun", "nightly")
    again = command.run("up", *options)
    assert "Already up" in again
    assert prefect in again
    assert _schedules(prefect) == {"weekly": False, "nightly": True}, "what was switched on stays"

    stranger = Command(command.home / "stranger")
    stranger.home.mkdir()
    message = stranger.run("up", *options, status=2)
    assert f"port {ports[0]}: is taken by a Prefect server" in message
    assert f"port {ports[1]}: is taken by an MLflow server" in message

    family = _family(home)
    assert "Ended." in command.run("down")
    assert first.wait(10) == 0
    assert not _living(family)
    assert command.run("status", status=1).count("not running") == 3

    # The same databases again; and killed, it takes all that it had started with it.
    second = command.start("up", *options)
    started.append(second)
    read_until_ready(second)
    assert _schedules(prefect) == {"weekly": False, "nightly": True}
    family = _family(home)
    second.kill()
    second.wait()
    deadline = time.monotonic() + 20
    while _living(family) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _living(family)
    assert command.run("status", status=1).count("not running") == 3


def _post(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    return httpx.post(f"{address}/api{path}", json=body or {}).raise_for_status().json()


def _deployments(address: str) -> dict[str, Any]:
    return {one["name"]: one for one in _post(address, "/deployments/filter")}


def _schedules(address: str) -> dict[str, bool]:
    """Whether each schedule is on, by its name in prefect.yaml."""
    schedules = (one["schedules"] for one in _deployments(address).values())
    return {one["slug"]: one["active"] for listed in schedules for one in listed}


def _switch_on(address: str, deployment: str, slug: str) -> None:
    found = _deployments(address)[deployment]
    schedule = next(one for one in found["schedules"] if one["slug"] == slug)
    url = f"{address}/api/deployments/{found['id']}/schedules/{schedule['id']}"
    httpx.patch(url, json={"active": True}).raise_for_status()


def _online_workers(address: str, pool: str) -> int:
    workers = _post(address, f"/work_pools/{pool}/workers/filter")
    return sum(worker["status"] == "ONLINE" for worker in workers)


def _family(home: Home) -> set[int]:
    """Ids of what `up` has started, and of what those have."""
    record = last_record(home)
    assert record is not None
    members, new = {record.pid}, {record.pid}
    while new:
        new = {child for parent in new for child in children_of(parent)} - members
        members |= new
    assert {entry.pid for entry in record.running.values()} <= members
    return members


def _living(pids: set[int]) -> set[int]:
    return {pid for pid in pids if is_living(pid)}
