"""Cancel, pressed in mid-training: what has to have happened some seconds later."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from serving import Servers, is_living, wait_until

from twolevers.settings import Settings
from twolevers.slots import slots_folder
from twolevers.tracking.store import open_store

STEPS_AN_EPOCH = 6
SECONDS = 30.0
"""From the click to a free device. Promised are 10 s; on two idle cores it takes 3."""


def test_cancel_stops_between_two_steps_and_a_second_run_goes_on(
    servers: Servers, small_data: Path
) -> None:
    asked = {"dataset": str(small_data), "generation": {"max_new_tokens": 4}}
    run = servers.press_run("fine-tune", **asked, training={"epochs": 200, "eval_every": 2})
    servers.wait_for_log(run, "step 8:")
    tracked = servers.tracked(run)
    group = int(tracked.data.tags["twolevers.pid"])
    assert os.getpgid(group) == group, "the run's process leads a group of its own"

    _cancel(servers, run, lambda: not _is_group(group), "the run's processes are gone")

    tracked = servers.tracked(run)
    message = tracked.data.tags["twolevers.error"]
    stopped_at = re.search(r"Stopped after (\d+) of \d+ steps", message)
    assert stopped_at, message
    steps = int(stopped_at[1])
    assert tracked.info.status == "KILLED"
    assert _logged_steps(servers, tracked.info.run_id) == list(range(steps))
    left = servers.home.run_folder(tracked.info.run_id) / "checkpoints"
    at_an_end = steps % STEPS_AN_EPOCH == 0
    newest = left / (f"epoch-{steps // STEPS_AN_EPOCH}" if at_an_end else f"step-{steps:06d}")
    assert (newest / "model.safetensors").is_file()
    assert (newest / "trainer_state.safetensors").is_file()

    epochs = steps // STEPS_AN_EPOCH + 1
    again = servers.press_run(
        "fine-tune", **asked, training={"epochs": epochs, "eval_every": 2}, resume_from=run
    )
    servers.wait_for_end(again, "COMPLETED")
    resumed = servers.tracked(again)
    assert resumed.info.run_id == tracked.info.run_id
    assert resumed.info.status == "FINISHED"
    assert resumed.data.tags["prefect.flow_run_id"] == f"{run},{again}"
    assert f"Going on from {newest.name}, after {steps} steps." in servers.whole_log(again)
    assert _logged_steps(servers, tracked.info.run_id) == list(range(epochs * STEPS_AN_EPOCH))


def test_cancel_ends_child_processes_whose_output_is_in_the_log(
    servers: Servers, small_data: Path
) -> None:
    servers.deploy_file("with-child", Path(__file__).with_name("fine_tune_with_child.py"))
    run = servers.press_run(
        "with-child", dataset=str(small_data), training={"epochs": 200, "eval_every": 2}
    )
    for text in ("the child's id is", "the child complains", "step 4:"):
        servers.wait_for_log(run, text)
    lines = servers.log(run)
    said = [line for line in lines if line.startswith("the child")]
    assert len(said) == 2, lines
    child = int(said[0].removeprefix("the child's id is "))
    assert said[1] == "the child complains"
    assert len([line for line in lines if line.startswith("step 2:")]) == 1, "no line comes twice"
    assert is_living(child)

    _cancel(servers, run, lambda: not is_living(child), "the child is gone")


def _cancel(servers: Servers, run: str, is_gone: Callable[[], bool], what: str) -> None:
    """Press Cancel: in time the processes are gone, the run is Cancelled, the device is free."""
    servers.press_cancel(run)
    pressed = time.monotonic()
    wait_until(is_gone, what, 2 * SECONDS)
    servers.wait_for_end(run, "CANCELLED")
    with FileLock(slots_folder() / "cpu.lock", timeout=0):
        took = time.monotonic() - pressed
    print(f"cancelled, {what} and the device free, after {took:.1f} s")
    assert took < SECONDS


def test_cancel_of_a_table_ends_the_run_of_its_cell_as_well(servers: Servers) -> None:
    """The table's runs are processes of their own, below the table's."""
    table = servers.press_run("run-time-table")
    servers.wait_for_log(table, "1 run to time")
    child = wait_until(lambda: _running_below(servers, table), "the cell's run has begun")
    servers.wait_for_log(child, "step 0:")
    process = int(servers.tracked(child).data.tags["twolevers.pid"])

    servers.press_cancel(table)
    pressed = time.monotonic()
    wait_until(lambda: not is_living(process), "the cell's process is gone", 2 * SECONDS)
    with FileLock(slots_folder() / "cpu.lock", timeout=0):
        took = time.monotonic() - pressed
    print(f"its cell's run stopped, and the device free, after {took:.1f} s")
    assert took < SECONDS
    servers.wait_for_end(child, "CANCELLED")
    servers.wait_for_end(table, "CANCELLED")  # said by the worker, which first loads the flow
    assert servers.tracked(child).info.status == "KILLED"


def _running_below(servers: Servers, flow_run: str) -> str | None:
    stages = servers.post("/task_runs/filter", {"flow_runs": {"id": {"any_": [flow_run]}}})
    only = {"flow_runs": {"parent_task_run_id": {"any_": [stage["id"] for stage in stages]}}}
    found = servers.post("/flow_runs/filter", only)
    return str(found[0]["id"]) if found else None


def _logged_steps(servers: Servers, run_id: str) -> list[int]:
    client = open_store(servers.home, Settings()).client
    return [metric.step for metric in client.get_metric_history(run_id, "train/loss")]


def _is_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
