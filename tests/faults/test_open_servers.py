"""`twolevers up` open to the network, over databases of older versions, with a server that dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from command import Command

from flows.running import last_record
from twolevers.settings import Home

# One migration back, as an older version would have left it.
OLDER_PREFECT = """
import anyio
from prefect.server.database.alembic_commands import alembic_downgrade, alembic_upgrade

async def older():
    await anyio.to_thread.run_sync(alembic_upgrade)
    await anyio.to_thread.run_sync(alembic_downgrade)

anyio.run(older)
"""
OLDER_MLFLOW = """
from alembic import command
from mlflow.store.db.utils import _get_alembic_config
from twolevers.settings import Home, load_settings
from twolevers.tracking.store import prepare_store

command.downgrade(_get_alembic_config(prepare_store(Home(), load_settings())), "-1")
"""


def own_prefect(root: Path) -> dict[str, str]:
    """Prefect's folders in this home: importing `flows` has set those of whoever runs the tests."""
    prefect = Home(root).prefect
    return {"PREFECT_HOME": str(prefect), "PREFECT_LOCAL_STORAGE_PATH": str(prefect / "results")}


@pytest.fixture(scope="module")
def own_address() -> str:
    """Where others reach this machine, asked of the system in another way than `up` asks."""
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    found = [address for address in listed if "." in address and not address.startswith("127.")]
    if not found:
        pytest.skip("this machine has no address besides loopback")
    return found[0]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command over an empty home, with no server set, its sockets open: it has to find out
    by which address others reach this machine."""
    for name in ("PREFECT_API_URL", "PREFECT_UI_URL", "TWOLEVERS_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return Command(tmp_path, {"PYTHONPATH": "", **own_prefect(tmp_path)})


def test_open_servers_name_a_reachable_address_and_survive(
    command: Command, own_address: str, started: list[subprocess.Popen[str]]
) -> None:
    _leave_older_databases(command)
    ports = _free_ports()
    prefect, mlflow = (f"http://{own_address}:{port}" for port in ports)
    options = ["--prefect-port", str(ports[0]), "--mlflow-port", str(ports[1])]
    up = command.start("up", "--host", "0.0.0.0", *options)
    started.append(up)
    shown = _read_until(up, "Ready")
    began = time.monotonic()
    assert "there is no password" in shown
    assert prefect in shown
    assert mlflow in shown
    assert "127.0.0.1" not in shown
    assert "Prefect    upgraded its database of an older version (prefect.db)" in shown
    assert "MLflow     upgraded its database of an older version (mlflow.db)" in shown
    assert prefect in command.run("status")

    # Prefect's page asks the address that the browser came by.
    assert httpx.get(f"{prefect}/ui-settings").json()["api_url"] == f"{prefect}/api"
    assert httpx.get(f"{prefect}/api/health").json() is True
    names = [own_address, socket.gethostname(), "127.0.0.1"]
    assert [_asked_of_mlflow(mlflow, f"{name}:{ports[1]}") for name in names] == [200] * 3
    assert _asked_of_mlflow(mlflow, f"elsewhere.invalid:{ports[1]}") == 403
    foreign = {"Origin": "http://elsewhere.invalid"}
    assert _asked_of_mlflow(mlflow, f"{own_address}:{ports[1]}", foreign) == 403

    assert command.run("ui", "mlflow") == f"MLflow runs already: {mlflow}\n"
    assert command.run("ui", "prefect") == f"Prefect runs already: {prefect}\n"

    # It has to have been up for a while: what dies at once would die again.
    record = last_record(Home(command.home))
    assert record is not None
    server = record.running["MLflow"].pid
    assert server
    time.sleep(max(0.0, 31 - (time.monotonic() - began)))
    log = Path(command.home, ".prefect", "mlflow-server.log")
    with log.open("a") as file:
        file.write("why it died\n")
    os.killpg(server, signal.SIGKILL)
    assert f"its log is {log}" in _read_until(up, "MLflow")
    assert "runs again" in _read_until(up, "MLflow")
    assert "why it died" in log.read_text()
    assert _asked_of_mlflow(mlflow, f"{own_address}:{ports[1]}") == 200
    assert command.run("status").count("pid ") == 3
    assert "Ended." in command.run("down")


def _leave_older_databases(command: Command) -> None:
    env = {**os.environ, "TWOLEVERS_HOME": str(command.home), **own_prefect(command.home)}
    making = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE)
        for code in (OLDER_PREFECT, OLDER_MLFLOW)
    ]
    for process in making:
        _, errors = process.communicate(timeout=180)
        if b"NotImplementedError" in errors:
            pytest.skip("the last migration of this version has no way back")
        assert process.returncode == 0, errors.decode()


def _free_ports() -> list[int]:
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in (one, other)]


def _asked_of_mlflow(address: str, host: str, headers: dict[str, str] | None = None) -> int:
    """Status of a browser's request that names `host`."""
    url = f"{address}/ajax-api/2.0/mlflow/experiments/search"
    origin = {"Origin": f"http://{host}", "Host": host}
    return httpx.post(url, json={"max_results": 5}, headers=origin | (headers or {})).status_code


def _read_until(process: subprocess.Popen[str], beginning: str) -> str:
    shown = ""
    assert process.stdout
    for line in process.stdout:
        shown += line
        if line.startswith(beginning):
            return shown
    pytest.fail(f"it ended: {shown}\n{process.communicate()[1]}")
