"""Prefect's server stops in mid-run, and is back after 20 s over the same database."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from serving import Servers, is_living, wait_until

from flows.running import answers, last_record

AWAY_SECONDS = 20.0
EPOCHS, STEPS = 14, 84
STAGES = {"fetch dataset", "fetch weights", "tokenise", "fine-tune", "generate", "evaluate"}


def test_a_server_away_for_20_s_costs_the_run_nothing(servers: Servers, small_data: Path) -> None:
    run = servers.press_run(
        "fine-tune",
        dataset=str(small_data),
        training={"epochs": EPOCHS, "eval_every": 2},
        generation={"max_new_tokens": 4},
    )
    servers.wait_for_log(run, "step 4:")
    stop_prefect(servers, AWAY_SECONDS)

    servers.wait_for_end(run, "COMPLETED")
    log = servers.whole_log(run)
    for step in range(0, STEPS, 2):
        assert sum(line.startswith(f"step {step}: ") for line in log) == 1, "\n".join(log)
    states = servers.task_states(run)
    assert set(states.values()) == {"COMPLETED"}, states
    for stage in STAGES:
        assert any(name.startswith(stage) for name in states), states
    tracked = servers.tracked(run)
    assert tracked.info.status == "FINISHED"
    status = servers.command.run("status")
    assert status.count("pid ") == 3


def stop_prefect(servers: Servers, seconds: float) -> None:
    """Kill the server; so long after, `up` finds that it is gone and starts it again."""
    record = last_record(servers.home)
    assert record
    server = record.running["Prefect"].pid
    assert server
    os.kill(servers.process.pid, signal.SIGSTOP)  # or it would start the server again at once
    try:
        os.killpg(server, signal.SIGKILL)
        wait_until(lambda: not is_living(server), "the server is gone")
        time.sleep(seconds)
        assert not answers("Prefect", servers.prefect)
    finally:
        os.kill(servers.process.pid, signal.SIGCONT)
    wait_until(lambda: answers("Prefect", servers.prefect), "Prefect answers again")
