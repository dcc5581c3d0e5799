"""Two first starts at once over one fresh home: neither breaks what the other makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from command import Command
from serving import PATIENCE


def test_two_fine_tunings(command: Command, small_data: Path, started: list[object]) -> None:
    arguments = ("fine-tune", "--dataset", str(small_data), "--epochs", "1")
    both = [command.start(*arguments, "--max-new-tokens", "4") for _ in range(2)]
    started += both
    for process in both:
        out, err = process.communicate(timeout=2 * PATIENCE)
        assert process.returncode == 0, f"{out}\n{err}"
        assert "Traceback" not in out + err
    assert command.statuses() == ["FINISHED"] * 2


def test_two_ups(command: Command, ports: list[int], started: list[subprocess.Popen[str]]) -> None:
    options = ["--prefect-port", str(ports[0]), "--mlflow-port", str(ports[1])]
    both = [command.start("up", *options) for _ in range(2)]
    started += both
    shown = [read_until_ready_or_end(process) for process in both]
    assert sorted("Already up" in text for text in shown) == [False, True], shown
    user = both[shown.index(next(text for text in shown if "Already up" in text))]
    server = next(process for process in both if process is not user)
    assert user.wait(PATIENCE) == 0
    assert command.run("status").count("pid ") == 3
    assert "Ended." in command.run("down")
    assert server.wait(PATIENCE) == 0


def read_until_ready_or_end(process: subprocess.Popen[str]) -> str:
    shown = ""
    assert process.stdout
    for line in process.stdout:
        shown += line
        if line.startswith("Ready"):
            break
    return shown
