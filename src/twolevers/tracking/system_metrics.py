"""What the process takes from the machine while a run is open: processor, memory, GPU memory.

MLflow's own sampler needs psutil, asks the store at every sample and reports the whole machine.
This one reads the process's own counters, some 0.1 ms a sample, and hands them to the run's
writer. The names begin with `system/`, which is where MLflow's page looks for them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

STATM = Path("/proc/self/statm")
SHORTEST, SHARE = 1.0, 1 / 200
"""Seconds between two samples: the longer the run, the rarer, so that a day is 1,300 points."""

Log = Callable[[Mapping[str, float], int], object]


@contextmanager
def sampled(log: Log, began: float) -> Iterator[None]:
    """Sample while inside. The step of a sample is its second since the run began.

    Args:
        log: called in a thread of its own with the figures and the step.
        began: when the run began, by `time.time()`; a resumed run goes on counting from there.
    """
    stop = threading.Event()

    def watch() -> None:
        processor, moment = time.process_time(), time.monotonic()
        while not stop.wait(max(SHORTEST, SHARE * (time.time() - began))):
            spent, now = time.process_time(), time.monotonic()
            figures = {"system/cpu_cores_used": (spent - processor) / (now - moment)}
            processor, moment = spent, now
            log(figures | memory(), int(time.time() - began))

    thread = threading.Thread(target=watch, name="system-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def memory() -> dict[str, float]:
    """Memory of this process in MiB, what of it is known: resident, and on each GPU in use."""
    figures = {}
    if STATM.is_file():
        pages = int(STATM.read_text(encoding="ascii").split()[1])
        figures["system/memory_mebibytes"] = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    # Another thread may be importing it: then it lacks what stands further down in its file.
    cuda = sys.modules.get("torch.cuda")
    is_initialized = getattr(cuda, "is_initialized", None)
    if cuda is not None and is_initialized is not None and is_initialized():
        for index in range(cuda.device_count()):
            if held := cuda.memory_reserved(index):
                figures[f"system/gpu_{index}_memory_mebibytes"] = held / 2**20
    return figures
