"""The device's slot: others wait, across processes, and a killed holder leaves it free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from twolevers import slots
from twolevers.device import Device
from twolevers.slots import device_slot

CPU = Device("cpu", "a processor", 2, 0)
MPS = Device("mps", "a GPU", 2, 0)

HOLD = """
import sys, time
from twolevers.device import Device
from twolevers.slots import device_slot
with device_slot(Device("cpu", "a processor", 2, 0), "gpt2-small (124M) (run 1a2b)", print):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOLEVERS_SLOTS", str(tmp_path / "twolevers-slots"))
    monkeypatch.setattr(slots, "POLL_SECONDS", 0.01)


@pytest.fixture
def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_run_waits_and_says_for_whom(holder):
    said: list[str] = []
    entered = threading.Event()

    def second() -> None:
        with device_slot(CPU, "second", said.append):
            entered.set()

    waiting = threading.Thread(target=second)
    waiting.start()
    assert not entered.wait(0.5)
    assert said[0].startswith(
        "waiting for cpu (a processor): gpt2-small (124M) (run 1a2b) uses it, started by "
    )
    os.kill(holder.pid, signal.SIGKILL)
    assert entered.wait(5)
    waiting.join()
    assert said[1].startswith("cpu is free after ")


def test_another_device_does_not_wait(holder):
    said: list[str] = []
    with device_slot(MPS, "second", said.append):
        pass
    assert said == []


def test_the_slot_is_free_after_the_block_whatever_happened():
    for _ in range(2):
        with pytest.raises(RuntimeError), device_slot(CPU, "first", print):
            raise RuntimeError


def test_who_waits_can_be_interrupted(holder):
    def say(_text: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), device_slot(CPU, "second", say):
        pass
    assert time.monotonic() - began < 5


def test_two_users_may_share_it(tmp_path):
    with device_slot(CPU, "first", print):
        pass
    folder = tmp_path / "twolevers-slots"
    assert folder.stat().st_mode & 0o1777 == 0o1777
    assert (folder / "cpu.lock").stat().st_mode & 0o666 == 0o666


def test_a_damaged_note_is_no_obstacle(holder, tmp_path):
    (Path(tmp_path) / "twolevers-slots" / "cpu.json").write_text("{", encoding="utf-8")
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        holder.kill()

    with device_slot(CPU, "second", say):
        pass
    assert said[0].endswith("another run uses it")
