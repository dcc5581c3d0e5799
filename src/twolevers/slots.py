"""One run at a time on a device.

A slot is this host and one device of it: whoever trains there, from whatever home, deployment or
terminal, holds a lock that the operating system keeps. It goes with the process that holds it,
however that ends, so a crash never leaves a device taken.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from twolevers.device import Device
from twolevers.files import read_json

POLL_SECONDS = 0.5
REMIND_SECONDS = 60.0


def slots_folder() -> Path:
    """On this host alone, and for all of its users: a home may lie on a disk that hosts share.

    `TWOLEVERS_SLOTS` names another folder, for containers that share a device.
    """
    named = os.environ.get("TWOLEVERS_SLOTS")
    return Path(named) if named else Path(tempfile.gettempdir()) / "twolevers-slots"


@contextmanager
def device_slot(device: Device, holder: str, say: Callable[[str], None]) -> Iterator[None]:
    """Waits until nobody else uses the device, and keeps others waiting inside the block.

    Args:
        holder: what to tell those who wait: the run's name.
        say: told whom one waits for, at once and every minute.
    """
    folder = slots_folder()
    folder.mkdir(parents=True, exist_ok=True)
    lock = _open_to_all(folder / f"{device.slot}.lock")
    note = folder / f"{device.slot}.json"
    slot = FileLock(lock, mode=0o666)
    began, reminded = time.monotonic(), -REMIND_SECONDS
    while True:
        try:
            slot.acquire(timeout=0)
            break
        except Timeout:
            waited = time.monotonic() - began
            if waited - reminded >= REMIND_SECONDS:
                reminded = waited
                say(f"waiting for {device.name} ({device.hardware}): {_held_by(note)}")
            time.sleep(POLL_SECONDS)
    try:
        if reminded >= 0:
            say(f"{device.name} is free after {time.monotonic() - began:.0f} s")
        _tell(note, holder)
        yield
    finally:
        slot.release()


def _open_to_all(lock: Path) -> Path:
    """A lock file that every user of the host may take, whatever the umask."""
    for path, mode in ((lock.parent, 0o1777), (lock, 0o666)):
        with contextlib.suppress(OSError):  # another user's, who has done so already
            if path is lock:
                path.touch()
            path.chmod(mode)
    return lock


def _tell(note: Path, holder: str) -> None:
    # Not with `atomic_file`: in a folder with the sticky bit, another user's file stays theirs.
    told = {"holder": holder, "user": _user(), "since": time.strftime("%H:%M UTC", time.gmtime())}
    with contextlib.suppress(OSError):
        note.write_text(json.dumps(told), encoding="utf-8")
        note.chmod(0o666)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "another user"


def _held_by(note: Path) -> str:
    try:
        held = read_json(note)
        return f"{held['holder']} uses it, started by {held['user']} at {held['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another run uses it"
