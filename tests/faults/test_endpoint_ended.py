"""`twolevers serve` ended under way: who is being answered is told, or gets it whole."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest
from command import Command
from helpers import write_random_weights
from serving import PATIENCE, read_until

from twolevers.models.catalog import GPT2Config

SLOW = GPT2Config(emb_dim=256, num_layers=4, num_heads=4)
"""Takes seconds for the longest answer."""
ASKED = {"prompt": "Every effort moves you", "stream": True}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_random_weights(tmp_path / "slow", SLOW)


def end_while_answering(
    process: subprocess.Popen[str], number: signal.Signals, shown: str, max_tokens: int
) -> list[str]:
    """The events of an answer, the server having got the signal behind the first."""
    port = re.search(r":(\d+)/v1", shown)
    assert port, shown
    key = re.search(r"key +(\S+)", shown)
    headers = {"authorization": f"Bearer {key[1]}"} if key else {}
    url = f"http://127.0.0.1:{port[1]}/v1/completions"
    if key:
        assert httpx.post(url, json=ASKED).status_code == 401
    body = ASKED | {"max_tokens": max_tokens}
    events = []
    with httpx.stream("POST", url, json=body, headers=headers, timeout=PATIENCE) as answer:
        for line in answer.iter_lines():
            if not events:
                process.send_signal(number)
            if line:
                events.append(line.removeprefix("data: "))
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert out.strip() == "ended"
    return events


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_without_grace_cuts_the_answer_and_says_why(
    command: Command, folder: Path, started: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    process = command.start("serve", "--run", str(folder), "--port", "0", "--grace", "0")
    started.append(process)
    events = end_while_answering(process, number, read_until(process, "Ctrl-C"), 1000)
    assert json.loads(events[-1])["error"]["message"] == "the server is being closed"
    assert len(events) < 1000


def test_ctrl_c_lets_the_answer_end_and_beyond_loopback_a_key_is_asked_for(
    command: Command, folder: Path, started: list[subprocess.Popen[str]]
) -> None:
    options = ["--host", "0.0.0.0", "--port", "0", "--grace", "300"]
    process = command.start("serve", "--run", str(folder), *options)
    started.append(process)
    shown = read_until(process, "Ctrl-C")
    assert "key  " in shown
    events = end_while_answering(process, signal.SIGINT, shown, 60)
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["choices"][0]["finish_reason"] == "length"
