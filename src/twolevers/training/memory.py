"""Peak memory of the training call, in bytes."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path

import torch

from twolevers.device import Device

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


class PeakMemory:
    """The peak since it was made: of the GPU's memory on CUDA, else resident in the process.

    On Linux the kernel's high-water mark is reset first, so that an earlier stage does not
    count. Where that is not permitted, or on another system, it is the process's own peak.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        if device.kind == "cuda":
            torch.cuda.reset_peak_memory_stats(device.name)
        else:
            with contextlib.suppress(OSError):  # no such file, or a container that forbids it
                _CLEAR_REFS.write_text("5", encoding="utf-8")

    def read(self) -> int:
        if self._device.kind == "cuda":
            return torch.cuda.max_memory_allocated(self._device.name)
        return _peak_resident()


def resident() -> int:
    """Bytes of this process that lie in memory now; where the system does not say, its peak."""
    return _status("VmRSS") or _peak_resident()


def _status(name: str) -> int | None:
    if not _STATUS.is_file():
        return None
    found = re.search(rf"^{name}:\s*(\d+) kB$", _STATUS.read_text(encoding="utf-8"), re.M)
    return int(found.group(1)) * 1024 if found else None


def _peak_resident() -> int:
    if (peak := _status("VmHWM")) is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, kB elsewhere
