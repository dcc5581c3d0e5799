"""The disk is full when a checkpoint is to be written."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command
from safetensors.torch import load_file
from serving import PATIENCE, read_until

ROOM_MIB = 150
"""For one checkpoint of gpt2-nano with trainer state (90 MB) and both databases, not for two."""


@pytest.fixture
def small_disk(command: Command, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A home on a disk of its own, of so many KiB."""
    home = command.home / "home"
    home.mkdir()
    what = ["-t", "tmpfs", "-o", f"size={request.param}k", "tmpfs", str(home)]
    mounted = subprocess.run(["mount", *what], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield home
    subprocess.run(["umount", "--lazy", str(home)], check=True)


def start(command: Command, data: Path) -> subprocess.Popen[str]:
    length = ("--epochs", "2", "--max-new-tokens", "4")
    return command.start("fine-tune", "--dataset", str(data), *length)


def check_failed(command: Command, process: subprocess.Popen[str], reason: str) -> None:
    """One error that says what, where and what to do; nothing half-written, and the run FAILED."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, f"{out}\n{err}"
    assert "Traceback" not in out + err
    errors = [line for line in err.splitlines() if line.startswith("twolevers:")]
    assert len(errors) == 1, err
    assert "epoch-2 could not be written" in errors[0]
    assert reason in errors[0]
    assert "twolevers clean" in errors[0]
    summary = command.summary()
    assert summary["status"] == "FAILED"
    checkpoints = command.home / "runs" / summary["mlflow_run_id"] / "checkpoints"
    assert {path.name for path in checkpoints.iterdir()} == {"epoch-1", "best"}
    for name in ("model.safetensors", "trainer_state.safetensors"):
        assert load_file(checkpoints / "epoch-1" / name)


def check_resumed(command: Command) -> None:
    run = command.summary()["mlflow_run_id"]
    said = command.run("fine-tune", "--resume", "latest")
    assert "Going on from epoch-1, after 6 steps." in said
    summary = command.summary()
    assert (summary["mlflow_run_id"], summary["status"]) == (run, "FINISHED")
    assert summary["tuned"]["val_loss"] < summary["base"]["val_loss"]


@pytest.mark.parametrize("small_disk", [ROOM_MIB * 1024], indirect=True)
def test_no_room_for_the_second_checkpoint(
    small_disk: Path, small_data: Path, started: list[subprocess.Popen[str]]
) -> None:
    command = Command(small_disk)
    process = start(command, small_data)
    started.append(process)
    check_failed(command, process, "No space left on device")
    subprocess.run(["mount", "-o", "remount,size=600m", str(small_disk)], check=True)
    check_resumed(command)


def test_a_file_may_not_become_so_large(
    command: Command, small_data: Path, started: list[subprocess.Popen[str]]
) -> None:
    """The same without a disk of its own: a quota's error comes from the same write."""
    process = start(command, small_data)
    started.append(process)
    read_until(process, "epoch-1: val")
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (40 * 2**20, hard))
    check_failed(command, process, "File too large")
    check_resumed(command)


@pytest.mark.parametrize("small_disk", [300], indirect=True)
def test_no_room_for_the_first_start(small_disk: Path) -> None:
    said = Command(small_disk).run("runs", status=1)
    assert f"There is no room to make or upgrade {small_disk / 'mlflow' / 'mlflow.db'}" in said
    assert not (small_disk / "mlflow" / "mlflow.db").exists()
