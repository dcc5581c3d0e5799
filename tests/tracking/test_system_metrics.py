import os
import subprocess
import sys
import time
from collections.abc import Mapping
from types import ModuleType

import pytest

from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store
from twolevers.tracking.system_metrics import memory, sampled

MEMORY = "system/memory_mebibytes"


def test_memory_is_what_the_system_says() -> None:
    figures = memory()
    if not figures:
        pytest.skip("this system does not tell a process its memory")
    listed = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True
    )
    assert figures[MEMORY] == pytest.approx(int(listed.stdout) / 1024, rel=0.1)


def test_torch_may_be_half_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is open while its stages import what they need, in another thread."""
    monkeypatch.setitem(sys.modules, "torch.cuda", ModuleType("torch.cuda"))
    assert set(memory()) <= {MEMORY}


def test_processor_time_and_seconds_are_those_of_the_clock() -> None:
    samples: list[tuple[Mapping[str, float], int]] = []
    before, began = time.process_time(), time.monotonic()
    with sampled(lambda figures, step: samples.append((figures, step)), time.time() - 100):
        while len(samples) < 2:
            sum(range(10_000))
        share = (time.process_time() - before) / (time.monotonic() - began)
    assert [figures["system/cpu_cores_used"] for figures, _ in samples] == pytest.approx(
        [share, share], rel=0.5
    )
    first, second = (step for _, step in samples)
    assert 101 <= first < second <= 100 + time.monotonic() - began + 1


def test_a_run_has_a_curve_of_its_memory(home: Home, settings: Settings, store: Store) -> None:
    with open_run(home=home, settings=settings, name="a run") as tracker:
        deadline = time.monotonic() + 60
        found: list[tuple[int, float]] = []
        while len(found) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
            found = tracker.read_metrics([MEMORY])[MEMORY]
    steps = [step for step, _ in found]
    assert steps == sorted(set(steps))
    assert all(value > 20 for _, value in found)
    # A run that is resumed goes on counting its seconds.
    with open_run(home=home, settings=settings, name="a run", resume=tracker.run_id) as again:
        while len(found) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
            found = again.read_metrics([MEMORY])[MEMORY]
    assert len(found) >= 3
    assert found[-1][0] > steps[-1]
