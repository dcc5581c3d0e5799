"""What `twolevers up` starts: which servers and workers, how, and when each is ready."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from flows.ports import is_loopback, port_problem, reached_at, seen_at
from flows.running import Running, answers, now
from flows.temporary_server import reach_directly
from twolevers.errors import InputError, Problem, TwoleversError
from twolevers.settings import Home, load_settings

START_SECONDS = 180
PREFECT, MLFLOW = "Prefect", "MLflow"
# One of these is there where Linux has a GPU.
GPU_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


def say(name: str, text: str, seconds: float | None = None) -> None:
    """One line of what happens."""
    took = "" if seconds is None else f"{seconds:6.1f} s"
    print(f"{name:<10} {text:<46}{took}".rstrip(), flush=True)


@dataclass
class Part:
    """A server or a worker: how it is started, and its process."""

    name: str
    arguments: list[str]
    log: Path
    address: str = ""
    pool: str = ""
    seen_at: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    _log_start: int = 0

    def start(self) -> None:
        own = {"TWOLEVERS_UP_PID": str(os.getpid()), **self.environment}
        # Started again, it must not wipe out why it had ended.
        self._log_start = self.log.stat().st_size if self.process else 0
        with self.log.open("a" if self.process else "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flows.server_process", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **own},
            )
        self.began = time.monotonic()

    def wait_until_ready(self) -> None:
        """Raises TwoleversError, naming the log, where it does not start."""
        while self.ended is None and time.monotonic() - self.began < START_SECONDS:
            if answers(self.name, self.address, 2) if self.address else self._says_started():
                return
            time.sleep(0.1)
        what = "is not ready" if self.ended is None else f"ended with status {self.ended}"
        raise TwoleversError(
            f"{self.name} {what} after {time.monotonic() - self.began:.0f} s. Its log says "
            f"why: {self.log}"
        )

    def _says_started(self) -> bool:
        with self.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._log_start)
            return "started!" in log.read()

    @property
    def running(self) -> Running:
        """What is kept of it while it runs."""
        pid = self.process.pid if self.process else None
        return Running(pid, now(), self.address, self.pool, self.seen_at)

    @property
    def ended(self) -> int | None:
        """Its exit status, if it has ended."""
        return self.process.poll() if self.process else None

    def stop(self, seconds: float) -> None:
        """Ask it to end, wait, and leave nothing of it."""
        if self.process is None:
            return
        try:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def plan_servers(home: Home, host: str, prefect_port: int, mlflow_port: int) -> list[Part]:
    """What is to be started here; what is set to be elsewhere is not."""
    open_to_all = not is_loopback(host)
    here, shown = reached_at(host), seen_at(host)
    reach_directly(here.strip("[]"))
    parts, problems = [], []
    if not os.environ.get("PREFECT_API_URL"):
        problems.append(port_problem(host, prefect_port, "--prefect-port"))
        own = {
            "PREFECT_SERVER_API_HOST": host,
            "PREFECT_SERVER_API_PORT": str(prefect_port),
            # The page in the browser asks this address.
            "PREFECT_UI_API_URL": os.environ.get("PREFECT_UI_API_URL")
            or f"http://{shown}:{prefect_port}/api",
            # Links in notifications.
            "PREFECT_UI_URL": os.environ.get("PREFECT_UI_URL") or f"http://{shown}:{prefect_port}",
        }
        address, page = (f"http://{name}:{prefect_port}" for name in (here, shown))
        arguments = ["prefect", host, str(prefect_port)]
        parts.append(_part(home, PREFECT, arguments, address, page, own))
    if not load_settings().tracking_uri:
        problems.append(port_problem(host, mlflow_port, "--mlflow-port"))
        # Jobs are for judging with language models; they would take three processes more.
        own = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        address, page = (f"http://{name}:{mlflow_port}" for name in (here, shown))
        names = ",".join(dict.fromkeys([shown, socket.gethostname()])) if open_to_all else ""
        arguments = ["mlflow", host, str(mlflow_port), names]
        parts.append(_part(home, MLFLOW, arguments, address, page, own))
    found = [problem for problem in problems if problem]
    if prefect_port == mlflow_port and len(parts) == 2:
        taken = "cannot serve both Prefect and MLflow"
        found.append(Problem(f"port {mlflow_port}", None, taken, "name another: --mlflow-port"))
    if found:
        raise InputError(list(dict.fromkeys(found)))
    if open_to_all and parts:
        print(f"Warning: whoever reaches {shown} can read and start runs; there is no password.")
    return parts


def _part(
    home: Home, name: str, arguments: list[str], address: str, page: str, own: dict[str, str]
) -> Part:
    # Servers of many threads: one heap for each would double their memory.
    own = {"MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"), **own}
    log = home.prefect / f"{name.lower()}-server.log"
    return Part(name, arguments, log, address, seen_at=page, environment=own)


def plan_worker(home: Home, pool: str) -> Part:
    """The worker of one pool."""
    name = "worker" if pool == "cpu" else f"worker {pool}"
    return Part(name, ["worker", pool], home.prefect / f"worker-{pool}.log", pool=pool)


@contextmanager
def upgrades_said(home: Home) -> Iterator[None]:
    """Say which database an older version made and this one upgraded."""
    files = {PREFECT: home.prefect / "prefect.db", MLFLOW: home.mlflow / "mlflow.db"}
    before = {name: _revision(file) for name, file in files.items()}
    yield
    for name, file in files.items():
        if before[name] and _revision(file) != before[name]:
            say(name, f"upgraded its database of an older version ({file.name})")


def _revision(file: Path) -> str | None:
    if not file.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)) as database:
            found = database.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:
        return None
    return str(found[0]) if found else None


def look_for_gpu() -> Callable[[], bool]:
    """Start to look for a CUDA device; PyTorch is asked in another process, it is large."""
    if not any(Path(file).exists() for file in GPU_FILES):
        return lambda: False
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return lambda: process.wait() == 0
