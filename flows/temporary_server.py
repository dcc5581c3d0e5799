"""A Prefect server for the length of one command, where no other runs.

It is the application that Prefect itself starts in that case, with two differences: it lies
in a session of its own, so that Ctrl-C in the terminal reaches the flow alone and the run can
still be reported as cancelled; and first starts wait for each other, because two that create
one database at once break it.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from filelock import FileLock

from flows.quick_imports import quick_imports
from flows.running import running_server
from flows.unsent import hide_addresses
from twolevers.errors import TwoleversError
from twolevers.settings import Home

START_SECONDS = 120


@contextmanager
def prefect_server(home: Home) -> Iterator[Callable[[], None]]:
    """A server for the block: the one that is set (`PREFECT_API_URL`), else the one that
    `twolevers up` has running over this home, else a temporary one.

    Yields a function that waits until the server answers, so that the caller can import and
    check meanwhile; it raises TwoleversError, naming the log, where the server did not start.
    """
    reach_directly()
    if address := os.environ.get("PREFECT_API_URL"):
        check_server(address)
        yield lambda: None
        return
    if running := running_server(home, "Prefect"):
        api = f"{running.address}/api"
        with _addresses(PREFECT_API_URL=api, PREFECT_UI_URL=running.page):
            yield lambda: None
        return
    home.prefect.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    log = home.prefect / f"temporary-server-{port}.log"
    address = f"http://127.0.0.1:{port}/api"
    starting = FileLock(home.prefect / "start.lock")
    with log.open("w", encoding="utf-8") as output, starting:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.temporary_server", str(port), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PREFECT_API_BLOCKS_REGISTER_ON_START": "false"},
        )
        os.environ["PREFECT_API_URL"] = address
        ready: list[str] = []
        try:

            def wait_until_ready() -> None:
                _wait_until_ready(process, address, log)
                ready.append(address)
                starting.release()

            yield wait_until_ready
        finally:
            _hand_over_logs()
            del os.environ["PREFECT_API_URL"]
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
            if ready:
                log.unlink(missing_ok=True)


@contextmanager
def _addresses(**addresses: str) -> Iterator[None]:
    """Set for the block what is not set; runs link to where their page is."""
    missing = {name: value for name, value in addresses.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        _hand_over_logs()
        for name in missing:
            del os.environ[name]


def _hand_over_logs() -> None:
    """Send Prefect's last log lines before their server goes."""
    for handler in logging.getLogger("prefect.flow_runs").handlers:
        handler.flush()


def reach_directly(*own: str) -> None:
    """A proxy that is set for the world must not be asked for this machine's own servers.

    Args:
        own: this machine's addresses, besides loopback, that they listen on.
    """
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in os.environ.get(name, "").split(",") if host]
        missing = [host for host in ("127.0.0.1", "localhost", *own) if host not in hosts]
        os.environ[name] = ",".join([*hosts, *missing])


def check_server(address: str) -> None:
    """Raises TwoleversError where the server that is set does not answer, or not to us."""
    name, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    try:
        url = f"{address.rstrip('/')}/admin/version"
        answer = httpx.get(url, timeout=10, auth=(name, password) if name else None)
        if answer.status_code == 401:
            raise TwoleversError(
                f"The Prefect server at {address} asks for a password: set "
                "PREFECT_API_AUTH_STRING=NAME:PASSWORD to the server's."
            )
        if answer.status_code < 500:
            return
        what = f"answers {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = f"does not answer ({error})"
    raise TwoleversError(
        f"The Prefect server at {address} {what}. Start it, correct PREFECT_API_URL, or unset it: "
        "then one of this machine is used."
    )


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    # One client for all tries: each makes a TLS context, which costs more than the request.
    with httpx.Client(timeout=2, trust_env=False) as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if client.get(f"{address}/health").is_success:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
    raise TwoleversError(
        f"Prefect's temporary server did not start; its log is {log}. If its database is "
        f"damaged, move prefect.db in {os.environ['PREFECT_HOME']} away and run again; or set "
        "PREFECT_API_URL to a server that runs."
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(port: int, parent: int) -> None:
    """The server process. It ends with the process that started it, however that ended."""

    def leave_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    with quick_imports():
        import uvicorn
        from prefect.server.api.server import create_app

        # Set, not given as arguments: its services ask for the app without, and find this one.
        os.environ.update(PREFECT__SERVER_EPHEMERAL="1", PREFECT__SERVER_FINAL="1")
        app = create_app()
    hide_addresses()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", lifespan="on")


if __name__ == "__main__":
    _serve(port=int(sys.argv[1]), parent=int(sys.argv[2]))
