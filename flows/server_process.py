"""The processes that `twolevers up` starts: Prefect's server, MLflow's, and the workers.

Each lies in a session of its own, so that Ctrl-C reaches `up` alone and they end in order, and
each ends by itself when `up` is gone, however that ended.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flows.quick_imports import exit_quickly, quick_imports
from flows.running import is_alive, last_record
from flows.unsent import hide_addresses
from twolevers.settings import Home, load_settings

# Longest time that runs under way get for their checkpoint.
STOP_SECONDS = 60.0
GRACE_SECONDS = 3


def prefect(host: str, port: str) -> None:
    """Prefect's server with its page and all of its services."""
    _when_alone(lambda: os._exit(0))
    with quick_imports():
        import uvicorn
        from prefect.server.api.server import create_app

        app = create_app(final=True)
    hide_addresses()
    uvicorn.run(
        app,
        host=host,
        port=int(port),
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def mlflow(host: str, port: str, names: str) -> None:
    """MLflow's server over the home's store.

    Args:
        names: host names that browsers may call it by, beside this machine's own addresses.
    """

    def leave() -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # MLflow hands it on to the process it started
        time.sleep(2 * GRACE_SECONDS)
        os.killpg(0, signal.SIGKILL)

    _when_alone(leave)
    with quick_imports():
        from twolevers.tracking.store import prepare_store

        home = Home()
        store = prepare_store(home, load_settings())
        from mlflow.cli import cli
        from mlflow.server.security_utils import get_default_allowed_hosts
    arguments = ["server", "--backend-store-uri", store, "--workers", "1"]
    arguments += ["--default-artifact-root", str(home.mlflow / "artifacts")]
    arguments += ["--host", host, "--port", port]
    quiet = f"--log-level warning --timeout-graceful-shutdown {GRACE_SECONDS}"
    arguments += ["--uvicorn-opts", quiet]
    if names:
        # In a pattern, `[` of an IPv6 address would begin a set of characters.
        patterns = [f"{name.replace('[', '[[]')}:*" for name in names.split(",")]
        hosts = [*names.split(","), *patterns]
        arguments += ["--allowed-hosts", ",".join([*get_default_allowed_hosts(), *hosts])]
        origins = ",".join(f"http://{name}:{port}" for name in names.split(","))
        arguments += ["--cors-allowed-origins", origins]
    cli(arguments)


def worker(pool: str) -> None:
    """A worker that runs the flows of one pool. Stopped, it lets them write their checkpoint."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: asked.set())

    def leave() -> None:
        end_children(os.getpid(), STOP_SECONDS)
        os._exit(0)

    def wait_until_asked() -> None:
        asked.wait()
        leave()

    _when_alone(leave, at_once=True)
    threading.Thread(target=wait_until_asked, daemon=True).start()
    with quick_imports():
        import asyncio

        from prefect.workers.process import ProcessWorker

    def say(text: str, **_style: object) -> None:
        print(text, flush=True)  # `up` waits for it in the log

    name = f"{socket.gethostname()} {pool}"
    asyncio.run(ProcessWorker(work_pool_name=pool, name=name).start(printer=say))


def _when_alone(leave: Callable[[], object], at_once: bool = False) -> None:
    """Call `leave` when the process that started this one is gone.

    Args:
        at_once: if false, the workers may end first, so that their runs can report how.
    """
    parent = int(os.environ["TWOLEVERS_UP_PID"])

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        record = last_record(Home())
        workers = [] if at_once or record is None else record.workers
        deadline = time.monotonic() + STOP_SECONDS
        while any(is_alive(one.pid) for one in workers) and time.monotonic() < deadline:
            time.sleep(0.2)
        leave()

    threading.Thread(target=watch, daemon=True).start()


def end_children(parent: int, seconds: float) -> None:
    """Ask a process's children and their groups to end, wait, then end what is left."""
    deadline = time.monotonic() + seconds
    asked: set[int] = set()
    while children := children_of(parent):
        late = time.monotonic() > deadline
        for child in children:
            if late or child not in asked:
                _signal_group(child, signal.SIGKILL if late else signal.SIGTERM)
                asked.add(child)
        if time.monotonic() > deadline + GRACE_SECONDS:
            return
        time.sleep(0.2)
    if asked:
        time.sleep(2)  # the worker tells the server how its runs ended


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        own = os.getpgid(pid) == pid
        os.killpg(pid, number) if own else os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def children_of(parent: int) -> list[int]:
    """Ids of a process's children that still run."""
    if Path("/proc/self/stat").exists():
        rows = []
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                # `pid (name) state parent …`, and a name may hold blanks and brackets
                state, above = file.read_text(errors="replace").rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            rows.append((int(file.parent.name), int(above), state))
    else:
        listed = subprocess.run(
            ["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=False
        )
        split = (line.split() for line in listed.stdout.splitlines())
        rows = [(int(pid), int(above), state) for pid, above, state in split]
    return [pid for pid, above, state in rows if above == parent and not state.startswith("Z")]


PARTS: dict[str, Callable[..., None]] = {"prefect": prefect, "mlflow": mlflow, "worker": worker}

if __name__ == "__main__":
    exit_quickly()
    PARTS[sys.argv[1]](*sys.argv[2:])
