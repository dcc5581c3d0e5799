"""What `twolevers up` has running over a home, as it keeps it in `.prefect/up.json`.

`up` holds a file lock as long as it lives, so a record without that lock is a killed one's.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import httpx
from filelock import FileLock, Timeout

from flows.ports import is_loopback
from twolevers.files import read_json, write_json
from twolevers.settings import Home

HEALTH = {"Prefect": "/api/health", "MLflow": "/health"}
HEALTH_SECONDS = 5.0


@dataclass
class Running:
    """One thing that runs: a server, or the worker of one pool."""

    pid: int | None  # None: elsewhere, not started by `up`
    since: str
    address: str = ""
    pool: str = ""
    seen_at: str = ""  # how other machines call it, where that is not `address`

    @property
    def page(self) -> str:
        """Address to tell people: without what stands before an `@` in it, a password."""
        address = self.seen_at or self.address
        kind, slashes, rest = address.partition("://")
        return f"{kind}{slashes}{rest.split('@')[-1]}"

    @property
    def where(self) -> str:
        """The page, or what a worker does."""
        return self.page or f"takes runs of pool {self.pool}"


@dataclass
class Record:
    """What one `up` has started so far."""

    pid: int
    since: str
    ready: bool = False
    running: dict[str, Running] = field(default_factory=dict)

    @property
    def workers(self) -> list[Running]:
        return [running for running in self.running.values() if running.pool]


def now() -> str:
    """Local time with its offset, to the second."""
    return datetime.now().astimezone().isoformat(" ", "seconds")


def up_lock(home: Home) -> FileLock:
    """Held by `up` from its start to its end."""
    return FileLock(home.prefect / "up.lock")


def record_file(home: Home) -> Path:
    """Where the record lies."""
    return home.prefect / "up.json"


def write_record(home: Home, record: Record) -> None:
    """Keep it, whole or not at all."""
    write_json(record_file(home), asdict(record))


def last_record(home: Home) -> Record | None:
    """What the last `up` wrote, whether or not it still runs."""
    try:
        kept = read_json(record_file(home))
        running = {name: Running(**entry) for name, entry in kept.pop("running").items()}
        return Record(**kept, running=running)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def current_record(home: Home) -> Record | None:
    """The record of the `up` that runs; None where none does."""
    return last_record(home) if is_up(home) else None


def is_up(home: Home) -> bool:
    """Whether an `up` lives over this home."""
    if not home.prefect.is_dir():
        return False
    try:
        with up_lock(home).acquire(timeout=0):
            return False
    except Timeout:
        return True


def running_server(home: Home, name: str) -> Running | None:
    """The server (`Prefect` or `MLflow`) that this home's `up` uses, if it answers."""
    record = current_record(home)
    entry = record.running.get(name) if record else None
    return entry if entry and answers(name, entry.address) else None


def server_address(home: Home, name: str) -> str | None:
    """Address by which this machine reaches it."""
    entry = running_server(home, name)
    return entry.address if entry else None


def answers(name: str, address: str, seconds: float = HEALTH_SECONDS) -> bool:
    """Whether the server says that it is well."""
    try:
        url = address.rstrip("/") + HEALTH[name]
        # Reading the certificates takes longer than a request to this machine.
        verify = url.startswith("https")
        # A proxy may be the way to a server elsewhere, never to one of this machine.
        proxies = not is_loopback(httpx.URL(url).host)
        return httpx.get(url, timeout=seconds, trust_env=proxies, verify=verify).is_success
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def is_alive(pid: int | None) -> bool:
    """Whether a process of this machine lives."""
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, and is somebody else's
    return True
