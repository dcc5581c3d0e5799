"""A run that is stopped and continued ends with the weights of one left alone.

(What `kill -9` leaves is tested where it matters: bits in tests/training, status in
tests/tracking.)
"""

from __future__ import annotations

import hashlib
import signal
import subprocess
from pathlib import Path

import pytest
from command import Command

RECIPE = ("--epochs", "3", "--eval-every", "2", "--dropout", "0.1", "--max-new-tokens", "4")


def weights_hash(command: Command, run: str = "latest") -> str:
    checkpoint = Path(command.summary(run)["checkpoint"])
    return hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """Reads the process's output up to the line that holds `text`."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    pytest.fail(f"{text!r} never came:\n{seen}\n{process.stderr.read() if process.stderr else ''}")


def test_a_stopped_run_ends_with_the_same_bits(command: Command, small_data: Path) -> None:
    arguments = ("fine-tune", "--dataset", str(small_data), *RECIPE)
    command.run(*arguments)
    undisturbed = weights_hash(command)

    process = command.start(*arguments)
    wait_for(process, "step 8:")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert "twolevers fine-tune --resume " in err
    stopped = command.summary()
    assert stopped["status"] == "KILLED"
    assert stopped["two_epoch_seconds"] is None
    assert "step-" in stopped["checkpoint"]
    refused = command.run("fine-tune", "--resume", "latest", "--batch-size", "4", status=2)
    assert "--batch-size" in refused
    command.run("fine-tune", "--resume", stopped["mlflow_run_id"])
    resumed = command.summary(stopped["mlflow_run_id"])
    assert resumed["status"] == "FINISHED"
    assert resumed["two_epoch_seconds"] is None
    assert weights_hash(command) == undisturbed
    assert command.statuses() == ["FINISHED"] * 2
