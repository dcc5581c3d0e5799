"""A tracking server elsewhere that stops in mid-run: training goes on, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import Command
from mlflow import MlflowClient
from serving import PATIENCE, read_until, wait_until

from flows.running import answers
from twolevers.settings import Home, Settings
from twolevers.tracking.alive import close_orphans

EPOCHS, STEPS = 8, 48
STORED = {"options.json", "inputs.json", "summary.json", "loss-curve.png", "responses.json"}


class TrackingServer:
    """MLflow's own, with its artifacts behind it, that can be stopped and started again."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.address = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        store = ["--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"]
        files = ["--artifacts-destination", str(self.folder / "artifacts")]
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *store, *files, *place],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            )
        wait_until(lambda: answers("MLflow", self.address), "the MLflow server answers")

    def stop(self) -> None:
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture
def tracking(tmp_path: Path, ports: list[int]) -> Iterator[TrackingServer]:
    folder = tmp_path / "server"
    folder.mkdir()
    server = TrackingServer(folder, ports[0])
    server.start()
    yield server
    server.stop()


def start(command: Command, tracking: TrackingServer, data: Path) -> subprocess.Popen[str]:
    """A fine-tuning that has come to step 4."""
    command.env["TWOLEVERS_TRACKING_URI"] = tracking.address
    length = ("--epochs", str(EPOCHS), "--eval-every", "2", "--max-new-tokens", "4")
    process = command.start("fine-tune", "--dataset", str(data), *length)
    read_until(process, "step 4:")
    return process


def finish(process: subprocess.Popen[str]) -> str:
    """What it says until it ends well."""
    out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, f"{out}\n{err}"
    assert "Traceback" not in out + err
    return out + err


def check_all_arrived(tracking: TrackingServer, run: Any) -> None:
    client = MlflowClient(tracking.address)
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [metric.step for metric in history] == list(range(STEPS))
    moments = [metric.timestamp for metric in history]
    assert moments == sorted(moments)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["base/val_loss"] > run.data.metrics["tuned/val_loss"]
    assert run.data.params["epochs"] == str(EPOCHS)
    stored = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert stored >= STORED


def only_run(tracking: TrackingServer) -> Any:
    client = MlflowClient(tracking.address)
    experiment = client.get_experiment_by_name("fine-tune")
    (run,) = client.search_runs([experiment.experiment_id])
    return run


def test_what_gathers_while_it_is_away_arrives_when_it_is_back(
    command: Command, tracking: TrackingServer, small_data: Path, started: list[Any]
) -> None:
    process = start(command, tracking, small_data)
    started.append(process)
    tracking.stop()
    said = read_until(process, "Training goes on")
    tracking.start()
    said += finish(process)
    assert f"step {STEPS - 2}:" in said
    assert "MLflow answers again" in said
    run = only_run(tracking)
    check_all_arrived(tracking, run)
    client = MlflowClient(tracking.address)
    assert client.list_artifacts(run.info.run_id, f"checkpoints/epoch-{EPOCHS}")
    assert not list(Home(command.home).run_folder(run.info.run_id).glob("tracking-leftover*"))


def test_what_never_arrives_is_kept_and_sent_at_the_next_start(
    command: Command, tracking: TrackingServer, small_data: Path, started: list[Any]
) -> None:
    process = start(command, tracking, small_data)
    started.append(process)
    tracking.stop()
    said = finish(process)
    assert said.count("Training goes on") == 1
    (folder,) = (path for path in Home(command.home).runs.iterdir() if path.name.isalnum())
    assert f"the rest lies in {folder / 'tracking-leftover.jsonl'}" in said
    assert f"They wait in {folder / 'tracking-leftover'}" in said
    assert f"checkpoints are not stored with the run, they stay at {folder}" in said
    assert "FINISHED" in said

    tracking.start()
    assert only_run(tracking).info.status == "RUNNING"
    close_orphans(Home(command.home), Settings(tracking_uri=tracking.address))
    check_all_arrived(tracking, only_run(tracking))
    assert not list(folder.glob("tracking-leftover*"))
