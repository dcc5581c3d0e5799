"""The live progress of a stage: what it says, and that nothing of it can hold a run up."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from tasks import artifacts
from tasks.artifacts import live_progress
from twolevers.progress import Pace, Silent


class Prefect:
    """Takes artifacts in the server's place."""

    def __init__(self, *, seconds: float = 0, error: Exception | None = None) -> None:
        self.seconds, self.error = seconds, error
        self.released = threading.Event()
        self.posts: list[tuple[float, str]] = []
        self.warnings: list[str] = []

    def create_progress_artifact(self, percent: float, _key: str, text: str) -> UUID:
        self.update_progress_artifact(None, percent, text)
        return uuid4()

    def update_progress_artifact(self, _artifact: Any, percent: float, text: str) -> None:
        self.released.wait(self.seconds)
        if self.error:
            raise self.error
        self.posts.append((percent, text))

    def get_run_logger(self) -> Prefect:
        return self

    def warning(self, text: str, *values: object) -> None:
        self.warnings.append(text % values)


def put_in_place(prefect: Prefect, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("create_progress_artifact", "update_progress_artifact", "get_run_logger"):
        monkeypatch.setattr(artifacts, name, getattr(prefect, name))
    monkeypatch.setattr(artifacts.LiveProgress, "SECONDS", 0.02)


def train(steps: int, pause: float = 0.01) -> None:
    with live_progress(Silent(), "progress") as progress:
        progress.start("fine-tune", 40, "steps")
        for step in range(1, steps + 1):
            time.sleep(pause)
            progress.advance(step, loss=1 / step, tokens_per_second=3912.4)
            if step == 10:
                progress.note("step 9: train 0.100, val 0.110")


def test_follows_the_stage_and_ends_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    prefect = Prefect()
    put_in_place(prefect, monkeypatch)
    train(30)
    percents = [percent for percent, _ in prefect.posts]
    assert percents == sorted(percents)
    assert len(percents) > 3
    assert " left" in prefect.posts[len(percents) // 2][1]
    assert prefect.posts[-1] == (
        75.0,
        "30 of 40 steps, loss 0.033, 3,912 tokens/s\n\nstep 9: train 0.100, val 0.110",
    )


def test_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    prefect = Prefect()
    put_in_place(prefect, monkeypatch)
    monkeypatch.setattr(artifacts.LiveProgress, "SECONDS", 60)
    train(40, 0.001)
    assert len(prefect.posts) <= 2  # at the start, at the end
    assert prefect.posts[-1][0] == 100


def test_a_slow_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    prefect, others = Prefect(seconds=10), set(threading.enumerate())
    put_in_place(prefect, monkeypatch)
    monkeypatch.setattr(artifacts.LiveProgress, "LAST_SECONDS", 0.1)
    began = time.monotonic()
    train(40, 0)
    assert time.monotonic() - began < 5
    # Before the real Prefect is in its place again: it would start a server for the last post.
    prefect.released.set()
    for poster in set(threading.enumerate()) - others:
        poster.join(5)


def test_a_server_that_is_gone_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prefect = Prefect(error=ConnectionError("nobody there"))
    put_in_place(prefect, monkeypatch)
    train(30)
    [warning] = prefect.warnings
    assert "nobody there" in warning


def test_pace_of_a_stage_that_goes_on() -> None:
    """What was done before the break says nothing of how long the rest takes."""
    times = iter([0.0, 2.0, 4.0])
    pace = Pace(120, clock=lambda: next(times))
    assert pace.seconds_left is None
    pace.advance(100)
    assert pace.seconds_left is None
    pace.advance(101)
    pace.advance(102)
    assert pace.seconds_left == pytest.approx(36)
    assert pace.percent == pytest.approx(85)
