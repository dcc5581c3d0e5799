"""One run at a time on a device; who waits says so in its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tasks.progress import stage_progress
from twolevers.device import find_device
from twolevers.records import OpenRun
from twolevers.slots import device_slot as slot_of


@contextmanager
def device_slot(run: OpenRun) -> Iterator[None]:
    """The run's device is its own inside the block."""
    device = find_device(run.options.device)
    name = f"{run.options.model} (run {run.run_id[:8]})"
    with stage_progress() as progress, slot_of(device, name, progress.note):
        yield
