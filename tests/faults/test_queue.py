"""Runs that meet: on one device they wait for each other, also after a crash; else they do not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from serving import Servers

QUICK = {"max_new_tokens": 4}


def test_a_killed_runs_device_is_free_at_once(servers: Servers, small_data: Path) -> None:
    asked = {"dataset": str(small_data), "generation": QUICK}
    first = servers.press_run("fine-tune", **asked, training={"epochs": 200, "eval_every": 2})
    servers.wait_for_log(first, "step 2:")
    second = servers.press_run("fine-tune", **asked, training={"epochs": 1})
    servers.wait_for_log(second, "waiting for cpu")
    tracked = servers.tracked(first)
    os.killpg(int(tracked.data.tags["twolevers.pid"]), signal.SIGKILL)
    killed = time.monotonic()
    servers.wait_for_log(second, "cpu is free after")
    took = time.monotonic() - killed
    print(f"the next run has the device {took:.1f} s after the kill")
    assert took < 30
    servers.wait_for_end(second, "COMPLETED")
    servers.wait_for_end(first, "CRASHED")


def test_two_runs_at_once_both_keep_their_whole_log(servers: Servers, small_data: Path) -> None:
    """Both write to the server's SQLite database; in the end all of it is there, and once."""
    runs = [
        servers.press_run(
            "fine-tune",
            # Two machines, as far as the slots go: neither waits for the other's device.
            {"TWOLEVERS_SLOTS": str(servers.command.home / f"slots-{number}")},
            dataset=str(small_data),
            training={"epochs": 5, "eval_every": 1},
            generation=QUICK,
        )
        for number in range(2)
    ]
    for run in runs:
        servers.wait_for_end(run, "COMPLETED")
    times = []
    for run in runs:
        log = servers.whole_log(run)
        assert not any("waiting for" in line for line in log)
        for step in range(30):
            assert sum(line.startswith(f"step {step}: ") for line in log) == 1, "\n".join(log)
        assert set(servers.task_states(run).values()) == {"COMPLETED"}
        found = servers.get(f"/flow_runs/{run}")
        times.append((found["start_time"], found["end_time"]))
    assert max(begin for begin, _ in times) < min(end for _, end in times), "not at once"
