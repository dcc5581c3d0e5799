"""A worker and its run killed with -9, a run that nobody takes, one that is asleep for long: what
Prefect and MLflow show of them, and who is told. One `twolevers up` for all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from command import Command

from flows.running import last_record
from twolevers.device import find_device
from twolevers.embedded import DATASET_PATH
from twolevers.settings import Home, Settings
from twolevers.slots import device_slot
from twolevers.tracking.queries import find_flow_run
from twolevers.tracking.run_info import run_info
from twolevers.tracking.store import open_store

SECRET = "only-the-block-knows"
BLOCK = "custom-webhook/hook"
CRASH_SECONDS = 360.0
"""The longest that a killed run may be taken for alive."""


def wait(what: str, condition: Callable[[], Any], seconds: float = 240.0) -> Any:
    """What `condition` gives as soon as that is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


@dataclass
class Hook:
    """The webhook that the block calls. It refuses what tells of a failed run."""

    address: str = ""
    told: list[dict[str, str]] = field(default_factory=list)

    def about(self, flow_run: str, what: str = "") -> dict[str, str]:
        """What arrived first about a flow run, and with `what` as subject; or nothing."""
        about = (one for one in self.told if flow_run in one["body"])
        return next((one for one in about if what in one["subject"]), {})


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    found = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.told.append(told)
            self.send_response(500 if told["subject"].endswith(": Failed") else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    found.address = f"http://127.0.0.1:{server.server_address[1]}/{SECRET}"
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass
class Up:
    """A `twolevers up` and its Prefect server's API."""

    command: Command
    home: Home
    prefect: str
    mlflow: str

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        """Prefect's answer; where it is too busy it is asked again, as its UI and client do."""
        address, began = f"{self.prefect}/api{path}", time.monotonic()
        while True:
            answer = httpx.request(method, address, json=body or {}, timeout=60)
            if answer.status_code != 503 or time.monotonic() - began > 120:
                break
            time.sleep(1)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def press_run(self, deployment: str = "fine-tune", **parameters: Any) -> str:
        """Id of a flow run of 6 steps an epoch."""
        ids = {one["name"]: one["id"] for one in self.ask("/deployments/filter")}
        small = {
            "dataset": str(self.home.root / "small.json"),
            "device": "cpu",
            "generation": {"max_new_tokens": 4},
        }
        body = {"parameters": small | parameters}
        return str(self.ask(f"/deployments/{ids[deployment]}/create_flow_run", body)["id"])

    def state(self, flow_run: str) -> dict[str, Any]:
        state: dict[str, Any] = self.ask(f"/flow_runs/{flow_run}", method="GET")["state"]
        return state

    def wait_for(self, flow_run: str, name: str, seconds: float = 240.0) -> dict[str, Any]:
        """Its state as soon as that has this name."""

        def now() -> dict[str, Any] | None:
            state = self.state(flow_run)
            return state if state["name"] == name else None

        found: dict[str, Any] = wait(f"{name}, is {self.state(flow_run)}", now, seconds)
        return found

    def wait_for_log(self, flow_run: str, text: str) -> None:
        """Until a line of its log holds `text`: Prefect sends lines beside the run, and a busy
        server shows them later than the run's state."""
        wanted = {"logs": {"flow_run_id": {"any_": [flow_run]}}, "limit": 200}

        def is_there() -> bool:
            return any(text in line["message"] for line in self.ask("/logs/filter", wanted))

        wait(f"{text!r} in the log of {flow_run}", is_there)

    def started_in_a_terminal(self) -> str | None:
        """The flow run of no deployment that has sent a heartbeat."""
        sent = {"filter": {"event": {"name": ["prefect.flow-run.heartbeat"]}}}
        for event in self.ask("/events/filter", sent)["events"]:
            flow_run = event["resource"]["prefect.resource.id"].removeprefix("prefect.flow-run.")
            if self.ask(f"/flow_runs/{flow_run}", method="GET")["deployment_id"] is None:
                return str(flow_run)
        return None

    def mlflow_run(self, flow_run: str) -> Any:
        """As the store has it: to look it up as a user does would close what was killed."""
        run_id = find_flow_run(flow_run, self.home, Settings())
        assert run_id, "no MLflow run bears the flow run's id"
        return run_info(open_store(self.home, Settings()).client.get_run(run_id), self.home)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, hook: Hook) -> Iterator[Up]:
    home = Home(tmp_path_factory.mktemp("home"))
    entries = json.loads(DATASET_PATH.read_text(encoding="utf-8"))[:60]
    (home.root / "small.json").write_text(json.dumps(entries), encoding="utf-8")
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        ports = [str(probe.getsockname()[1]) for probe in (one, other)]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PREFECT_API_URL", "PREFECT_UI_URL", "TWOLEVERS_TRACKING_URI"):
            patch.delenv(name, raising=False)
        command = Command(home.root, {"TWOLEVERS_NOTIFY": BLOCK})
        options = ["up", "--prefect-port", ports[0], "--mlflow-port", ports[1]]
        process = command.start(*options)
        try:
            assert process.stdout
            shown = ""
            while not shown.endswith("\n\nReady") and (sign := process.stdout.read(1)):
                shown += sign
            assert f"notify     {BLOCK} does not exist" in shown, shown
            prefect, mlflow = (f"http://127.0.0.1:{port}" for port in ports)
            served = Up(command, home, prefect, mlflow)
            _make_block(served, hook)
            assert f"{BLOCK} is told of failures" in command.run(*options)
            yield served
        finally:
            process.terminate()
            try:
                process.communicate(timeout=120)
            finally:
                process.kill()


def _make_block(up: Up, hook: Hook) -> None:
    """As the UI does."""
    kind = up.ask("/block_types/slug/custom-webhook", method="GET")["id"]
    of_kind = {"block_schemas": {"block_type_id": {"any_": [kind]}}}
    schema = up.ask("/block_schemas/filter", of_kind)[0]["id"]
    text = {"subject": "{{subject}}", "body": "{{body}}"}
    block = {"name": "hook", "block_type_id": kind, "block_schema_id": schema}
    data = {"name": "hook", "url": hook.address, "json_data": text}
    up.ask("/block_documents/", block | {"data": data})


def _process_of(flow_run: str) -> int:
    """The process that runs a flow run."""
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PREFECT__FLOW_RUN_ID={flow_run}\0".encode() in file.read_bytes():
                return int(file.parent.name)
        except OSError:
            continue
    raise AssertionError(f"no process runs {flow_run}")


@dataclass
class Gone:
    """Flow runs by what became of them."""

    missed: str
    killed: str
    asleep: str
    process_asleep: subprocess.Popen[str]
    failed: str
    after: str
    """Started on the same device after the kill."""


@pytest.fixture(scope="module")
def gone(up: Up) -> Iterator[Gone]:
    """In mid-training a run and the worker are killed, and a run from a terminal falls asleep."""
    if not Path("/proc").is_dir():
        pytest.skip("processes are found by /proc, which this system has not")
    up.ask("/work_pools/cuda", {"is_paused": True}, method="PATCH")
    missed = up.press_run("fine-tune-cuda", training={"epochs": 1, "learning_rate": 1e-7})
    with device_slot(find_device("cpu"), "a test", lambda _: None):
        data = ["--dataset", "small.json", "--device", "cpu"]
        process = up.command.start("fine-tune", *data, "--epochs", "1", "--max-new-tokens", "4")
        assert process.stdout
        # Not in the midst of a transaction, which would keep everybody else waiting.
        assert any("waiting for cpu" in line for line in process.stdout)
        asleep = wait("a heartbeat", up.started_in_a_terminal)
        process.send_signal(signal.SIGSTOP)
    killed = up.press_run(training={"epochs": 6, "checkpoint_every": 3})
    wait("training", lambda: list(up.home.runs.glob("*/checkpoints/step-*")))
    record = last_record(up.home)
    assert record
    assert record.running["worker"].pid
    os.kill(record.running["worker"].pid, signal.SIGKILL)
    os.kill(_process_of(killed), signal.SIGKILL)
    failed = up.press_run(dataset="/nowhere/data.json")
    after = up.press_run(training={"epochs": 1})
    yield Gone(missed, killed, asleep, process, failed, after)
    process.kill()
    process.communicate()


def test_a_killed_run_is_closed_and_its_device_is_free(up: Up, gone: Gone) -> None:
    wait("KILLED", lambda: up.mlflow_run(gone.killed).status == "KILLED", 90)
    up.wait_for(gone.after, "Completed")


def test_a_failure_is_told_and_what_cannot_be_sent_harms_nobody(
    up: Up, gone: Gone, hook: Hook
) -> None:
    reason = up.wait_for(gone.failed, "Failed")["message"]
    assert "no such data set" in reason
    told = wait("told", lambda: hook.about(gone.failed))
    assert told["subject"] == "gpt2-nano on cpu: Failed"
    assert reason in told["body"]
    log = up.home.prefect / "prefect-server.log"
    line = "A notification could not be sent: its address answers 500"
    wait("the log", lambda: line in log.read_text(encoding="utf-8"))


def test_what_crashed_and_what_was_missed_goes_on(up: Up, gone: Gone, hook: Hook) -> None:
    reason = up.wait_for(gone.killed, "Crashed", CRASH_SECONDS)["message"]
    assert "heartbeat stopped" in reason
    told = wait("told", lambda: hook.about(gone.killed))
    begun = up.mlflow_run(gone.killed)
    assert told["subject"] == "gpt2-nano on cpu: Crashed"
    assert reason in told["body"]
    assert begun.run_id in told["body"]
    retry = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
    up.ask(f"/flow_runs/{gone.killed}/set_state", {"state": retry})

    up.wait_for(gone.asleep, "Crashed", CRASH_SECONDS)
    gone.process_asleep.send_signal(signal.SIGCONT)

    assert "it starts as soon as" in up.wait_for(gone.missed, "Missed", 300)["message"]
    assert wait("told", lambda: hook.about(gone.missed))["subject"].endswith(": Missed")
    up.ask("/work_pools/cuda", {"is_paused": False}, method="PATCH")
    worker = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", "cuda"],
        env={
            **os.environ,
            "PREFECT_API_URL": f"{up.prefect}/api",
            "PREFECT_WORKER_QUERY_SECONDS": "5",
            "TWOLEVERS_HOME": str(up.home.root),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for flow_run in (gone.missed, gone.killed, gone.asleep):
            up.wait_for(flow_run, "Completed")
    finally:
        worker.kill()
        worker.wait()

    up.wait_for_log(gone.killed, "Going on from step-")
    ended = up.mlflow_run(gone.killed)
    assert (ended.run_id, ended.status) == (begun.run_id, "FINISHED")
    states = up.ask(f"/flow_run_states/?flow_run_id={gone.asleep}", method="GET")
    names = [state["name"] for state in sorted(states, key=lambda state: state["timestamp"])]
    # A run as short as this one may end before it is seen to be alive.
    assert names[names.index("Crashed") + 1 :] in (["Running", "Completed"], ["Completed"])


def test_a_worse_loss_is_told(up: Up, gone: Gone, hook: Hook) -> None:
    """The missed run hardly learns; the one that completed before it did."""
    told = wait("told", lambda: hook.about(gone.missed, "worse than the last run"))
    run = up.mlflow_run(gone.missed)
    text = f"The validation loss is {run.metrics['tuned/val_loss']:.4f}, "
    assert text in told["body"]
    up.wait_for_log(gone.missed, text)
    assert f"Prefect: {up.prefect}/runs/flow-run/{gone.missed}\n" in told["body"]
    assert told["body"].endswith(
        f"MLflow: {up.mlflow}/#/experiments/1/runs/{run.run_id}?workflowType=machine_learning"
    )


def test_no_log_holds_the_address_of_the_webhook(up: Up, gone: Gone, hook: Hook) -> None:
    assert hook.told
    for file in up.home.prefect.glob("*.log"):
        assert SECRET not in file.read_text(encoding="utf-8", errors="replace"), file
    lines = wait("lines", lambda: up.ask("/logs/filter", {"limit": 200}))
    assert not any(SECRET in line["message"] for line in lines)
