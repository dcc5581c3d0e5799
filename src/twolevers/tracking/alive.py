"""Which tracked runs are still being worked on, and closing those that are not.

Every open run holds a file lock that the kernel releases when its process ends, however it
ends. Process ids were tried first: they are reused, and mean nothing across containers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from twolevers.settings import Home, Settings
from twolevers.tracking.leftovers import send_leftovers
from twolevers.tracking.store import Store, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

LOCK_TAG = "twolevers.lock"


class RunLock:
    """The sign that a run is being worked on: its `name` is kept as a tag of the run."""

    def __init__(self, home: Home, name: str | None = None) -> None:
        self.name = name or uuid.uuid4().hex
        self.path = _folder(home) / f"{self.name}.lock"
        self._lock = FileLock(self.path, thread_local=False)

    def take(self, seconds: float = 0.0) -> bool:
        """Whether nobody else holds it, or lets go of it within `seconds`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=seconds, poll_interval=0.01)
        except Timeout:
            return False
        return True

    def is_held(self) -> bool:
        """Whether somebody holds it; a file that nobody holds stays, as a killed run's sign."""
        if not self.path.exists():
            return False
        if self.take():
            self._lock.release()
            return False
        return True

    def release(self) -> None:
        """Let go and remove the file."""
        self.path.unlink(missing_ok=True)
        self._lock.release()


def _folder(home: Home) -> Path:
    return home.runs / ".open"


def is_alive(run: Run, store: Store, home: Home) -> bool:
    """Whether a run that is marked RUNNING may still be worked on.

    A run without a lock of ours was opened by somebody else, one on a server whose lock is not
    in this home by another machine: both count as alive.
    """
    name = run.data.tags.get(LOCK_TAG, "")
    if not name.isalnum():
        return True
    lock = RunLock(home, name)
    return lock.is_held() if lock.path.exists() else not store.local


def killed_runs(home: Home) -> list[str]:
    """Names of the locks that a kill left. Quick: no store is asked."""
    names = [path.stem for path in _folder(home).glob("*.lock")]
    return [name for name in names if not RunLock(home, name).is_held()]


def close_orphans(home: Home, settings: Settings) -> list[str]:
    """Close as KILLED what a kill left RUNNING, send what could not be sent; ids of the closed."""
    return close_orphans_in(open_store(home, settings), home)


def close_orphans_in(
    store: Store, home: Home, warn: Callable[[str], None] | None = None
) -> list[str]:
    """`close_orphans` on an open store."""
    send_leftovers(store.client, home, warn)
    killed = killed_runs(home)
    closed = []
    running = store.client.search_runs(
        [store.experiment_id], "attributes.status = 'RUNNING'", max_results=1000
    )
    for run in running:
        if is_alive(run, store, home):
            continue
        # Between the search and now it may have been resumed, under a new lock.
        now = store.client.get_run(run.info.run_id)
        if now.info.status == "RUNNING" and not is_alive(now, store, home):
            store.client.set_terminated(run.info.run_id, status="KILLED")
            closed.append(run.info.run_id)
    for name in killed:
        lock = RunLock(home, name)
        if not lock.is_held():
            lock.path.unlink(missing_ok=True)
    return closed
