"""A team: one Prefect server on Postgres, one MLflow server, two machines with a worker each.

A machine is a home of its own here. The code that runs is fetched from a repository of the test's
own, and differs from what is installed in one line, so that it shows whose ran.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from command import Command

import twolevers
from flows.running import last_record
from twolevers.embedded import DATASET_PATH
from twolevers.settings import Home

ROOT = Path(__file__).parents[2]
VERSION = f"{twolevers.__version__}+fetched"
TOKEN = "token-of-a-private-repository"
START_SECONDS = 120
RUN_SECONDS = 300
QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(what: str, condition: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def is_well(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.HTTPError:
        return False


@dataclass
class Server:
    """A server as the documents start it, in a process group of its own."""

    arguments: list[str]
    log: Path
    health: str
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.arguments],
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=self.log.parent,
                env={**os.environ, **QUIET, **self.env},
            )

    def wait(self) -> None:
        try:
            wait_until(self.health, lambda: is_well(self.health))
        except AssertionError as late:
            pytest.fail(f"{late}\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Team:
    """Where both servers and the repository are, and what stands in Prefect's database."""

    prefect: Server
    mlflow: str
    repository: Path
    commit: str
    query: Callable[[str], str]

    @property
    def api(self) -> str:
        return self.prefect.health.removesuffix("/health")

    def machine(self, home: Path) -> Command:
        """A machine of the team, its home empty."""
        home.mkdir()
        prefect = Home(home).prefect
        env = {
            "PREFECT_API_URL": self.api,
            "TWOLEVERS_TRACKING_URI": self.mlflow,
            "PREFECT_HOME": str(prefect),
            "PREFECT_LOCAL_STORAGE_PATH": str(prefect / "results"),
        }
        return Command(home, env)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        return httpx.post(f"{self.api}{path}", json=body or {}).raise_for_status().json()

    def pulled_by(self, deployment: str) -> list[dict[str, Any]]:
        listed = {one["name"]: one for one in self.post("/deployments/filter")}
        return list(listed[deployment]["pull_steps"])


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[str, Callable[[str], str]]]:
    """Address of a Postgres database, and a function that asks it."""
    places = [str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")]
    path = os.pathsep.join([os.environ.get("PATH", ""), *places])
    programs = {name: shutil.which(name, path=path) for name in ("initdb", "postgres", "psql")}
    if not all(programs.values()):
        missing = ", ".join(name for name, file in programs.items() if not file)
        pytest.skip(f"Postgres is not installed (Debian's `postgresql`): no {missing}")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="twolevers-postgres-") as folder, ExitStack() as end:
        other: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            other = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(folder, "nobody", "nogroup")
        options = {**other, "cwd": folder, "stdout": subprocess.DEVNULL}
        data = f"{folder}/data"
        create = [programs["initdb"], "-D", data, "-U", "twolevers", "-A", "trust", "--no-sync"]
        subprocess.run(create, check=True, **options)
        listen = ["-p", str(port), "-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with Path(folder, "log").open("w") as log:
            started = [programs["postgres"], "-D", data, *listen]
            server = subprocess.Popen(started, stderr=log, **options)
        end.callback(server.wait)
        end.callback(server.send_signal, signal.SIGINT)  # ends without waiting for its clients

        def query(text: str, database: str = "prefect", check: bool = True) -> str:
            address = f"postgresql://twolevers@127.0.0.1:{port}/{database}"
            ask = [programs["psql"], address, "-tAc", text]
            done = subprocess.run(ask, capture_output=True, text=True, check=check)
            return done.stdout.strip()

        def answers() -> bool:
            return query("SELECT 1", "postgres", check=False) == "1"

        wait_until("Postgres answers", answers)
        query("CREATE DATABASE prefect", "postgres")
        yield f"postgresql+asyncpg://twolevers@127.0.0.1:{port}/prefect", query


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A bare repository with this tree's code, its version changed; and its commit."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    tree = tmp_path_factory.mktemp("tree")
    for name in ("flows", "tasks", "src"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("prefect.yaml", "settings.toml"):
        shutil.copy(ROOT / name, tree / name)
    init = tree / "src" / "twolevers" / "__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(f'{text}\n__version__ += "+fetched"\n', encoding="utf-8")
    bare = tree.with_name("code.git")

    def git(*arguments: str) -> str:
        person = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]
        command = ["git", "-C", str(tree), *person, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet", "--initial-branch", "team")
    git("add", ".")
    git("commit", "--quiet", "--message", "As in this tree")
    git("clone", "--quiet", "--bare", ".", str(bare))
    return bare, git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def team(
    postgres: tuple[str, Callable[[str], str]],
    repository: tuple[Path, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Team]:
    """Both servers, as docs/team.md starts them."""
    database, query = postgres
    folder = tmp_path_factory.mktemp("servers")
    ports = free_port(), free_port()
    listen = [["--host", "127.0.0.1", "--port", str(port)] for port in ports]
    prefect = Server(
        ["prefect", "server", "start", *listen[0]],
        folder / "prefect.log",
        f"http://127.0.0.1:{ports[0]}/api/health",
        {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
        },
    )
    stores = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    stores += ["--artifacts-destination", str(folder / "artifacts")]
    mlflow = Server(
        ["mlflow", "server", *listen[1], *stores, "--workers", "1"],
        folder / "mlflow.log",
        f"http://127.0.0.1:{ports[1]}/health",
        {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
    )
    try:
        for server in (prefect, mlflow):
            server.start()
        for server in (prefect, mlflow):
            server.wait()
        assert not list(folder.glob("prefect/*.db")), "Prefect does not use Postgres"
        yield Team(prefect, f"http://127.0.0.1:{ports[1]}", *repository, query)
    finally:
        for server in (prefect, mlflow):
            server.kill()


def test_a_private_repository_is_fetched_with_the_token_of_a_secret_block(
    team: Team, tmp_path: Path
) -> None:
    laptop = team.machine(tmp_path / "laptop")
    keep = (
        "from prefect.blocks.system import Secret; "
        f"Secret(value={TOKEN!r}).save('twolevers-git-token')"
    )
    env = {**os.environ, **QUIET, **laptop.env}
    subprocess.run([sys.executable, "-c", keep], check=True, env=env, capture_output=True)
    address = "https://code.invalid/team/twolevers.git"
    said = laptop.run("deploy", "--repository", address)
    assert f"{address}, default branch" in said
    assert team.pulled_by("rerun") == [
        {
            "prefect.deployments.steps.git_clone": {
                "repository": address,
                "access_token": "{{ prefect.blocks.secret.twolevers-git-token }}",
                "clone_directory_name": "twolevers-fetched",
            }
        }
    ]
    assert TOKEN not in team.query("SELECT * FROM deployment")
    assert TOKEN not in team.query("SELECT * FROM block_document"), "kept encrypted"
    [block] = team.post("/block_documents/filter")
    httpx.delete(f"{team.api}/block_documents/{block['id']}").raise_for_status()


def test_two_machines_run_fetched_code_for_one_team(team: Team, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    laptop = team.machine(tmp_path / "laptop")
    where = ["--repository", team.repository.as_uri(), "--branch", "team"]
    assert "branch team" in laptop.run("deploy", *where)
    machines = {pool: team.machine(tmp_path / pool) for pool in ("cpu", "cuda")}
    data = tmp_path / "small.json"
    entries = json.loads(DATASET_PATH.read_text(encoding="utf-8"))
    data.write_text(json.dumps(entries[:60]), encoding="utf-8")
    asked = {"device": "cpu", "dataset": str(data), "training": {"epochs": 1}}
    names = {"cpu": "fine-tune", "cuda": "fine-tune-cuda"}
    with ExitStack() as end:
        workers = {pool: one.start("up", "--pool", pool) for pool, one in machines.items()}
        for process in workers.values():
            end.callback(_end, process)
        for pool, process in workers.items():
            shown = _read_until(process, "Ready")
            assert f"{team.api.removesuffix('/api')} (PREFECT_API_URL)" in shown
            assert f"{team.mlflow} (TWOLEVERS_TRACKING_URI)" in shown
            assert f"takes runs of pool {pool}" in shown
            assert machines[pool].run("status").count("elsewhere") == 2
        deployed = {one["name"]: one["id"] for one in team.post("/deployments/filter")}
        flow_runs = {
            pool: team.post(f"/deployments/{deployed[name]}/create_flow_run", {"parameters": asked})
            for pool, name in names.items()
        }
        states = {
            pool: _state_at_the_end(team, flow_run["id"]) for pool, flow_run in flow_runs.items()
        }
        assert states == {"cpu": "COMPLETED", "cuda": "COMPLETED"}, [
            (machines[pool].home / ".prefect" / name).read_text()[-3000:]
            for pool, name in (("cpu", "worker-cpu.log"), ("cuda", "worker-cuda.log"))
        ]
        _outlives_its_worker_and_the_server(team, machines["cpu"], workers["cpu"])
    assert team.query("SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'") == "2"

    client = MlflowClient(team.mlflow)
    experiment = client.get_experiment_by_name("fine-tune")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    by_flow_run = {run.data.tags["prefect.flow_run_id"]: run for run in runs}
    for pool, flow_run in flow_runs.items():
        run = by_flow_run[flow_run["id"]]
        assert run.info.status == "FINISHED"
        assert run.data.tags["version.twolevers"] == VERSION, "the installed core ran"
        assert run.data.tags["git.commit"] == team.commit
        page = f"{team.api.removesuffix('/api')}/runs/flow-run/{flow_run['id']}"
        assert run.data.tags["prefect.flow_run_url"] == page
        assert run.info.artifact_uri.startswith("mlflow-artifacts:/")
        stored = client.list_artifacts(run.info.run_id, "checkpoints/epoch-1")
        here = machines[pool].home / "runs" / run.info.run_id / "checkpoints" / "epoch-1"
        sizes = {Path(file.path).name: file.file_size for file in stored}
        assert sizes["model.safetensors"] == (here / "model.safetensors").stat().st_size
        other = machines["cuda" if pool == "cpu" else "cpu"]
        assert not (other.home / "runs" / run.info.run_id).exists()
    listed = laptop.json("runs")
    assert {one["run_id"] for one in listed} == {run.info.run_id for run in runs}
    # Also from a machine that ran none of them.
    shown = laptop.json("show", runs[0].info.run_id)
    assert shown["hardware"] == runs[0].data.tags["twolevers.hardware"]
    assert shown["epochs"] == 1
    assert shown["val_loss_after"] > 0


def _outlives_its_worker_and_the_server(
    team: Team, machine: Command, up: subprocess.Popen[str]
) -> None:
    """A worker that ends while the server is away is started again once that is back."""
    record = last_record(Home(machine.home))
    assert record is not None
    worker = record.running["worker"].pid
    assert worker
    team.prefect.kill()
    os.kill(worker, signal.SIGKILL)
    assert "ended by itself" in _read_until(up, "Prefect").splitlines()[0]
    team.prefect.start()
    assert "runs again" in _read_until(up, "worker")
    now = last_record(Home(machine.home))
    assert now is not None
    assert now.running["worker"].pid not in (None, worker)
    assert machine.run("status").count("elsewhere") == 2


def _state_at_the_end(team: Team, flow_run_id: str) -> str:
    state = ""

    def has_ended() -> bool:
        nonlocal state
        found = httpx.get(f"{team.api}/flow_runs/{flow_run_id}").raise_for_status().json()
        state = found["state_type"]
        return state in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

    wait_until(f"flow run {flow_run_id} has ended", has_ended, RUN_SECONDS)
    return state


def _read_until(process: subprocess.Popen[str], beginning: str) -> str:
    shown = ""
    assert process.stdout
    for line in process.stdout:
        shown += line
        if line.startswith(beginning):
            return shown
    pytest.fail(f"it ended: {shown}\n{process.communicate()[1]}")


def _end(process: subprocess.Popen[str]) -> None:
    """As Ctrl-C does."""
    process.terminate()
    try:
        process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
