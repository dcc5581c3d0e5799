"""How far a stage is, shown where the run can be seen: a terminal, or the run's log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from twolevers.errors import RunStopped
from twolevers.progress import Progress
from twolevers.report.texts import progress_text


class LogLines:
    """Progress as lines of the run's log: every note, and the state every few seconds."""

    SECONDS = 10.0

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.stage, self.unit = "", ""
        self.total: int | None = None
        self.last = self.began = time.monotonic()

    def start(self, stage: str, total: int | None, unit: str) -> None:
        self.stage, self.total, self.unit = stage, total, unit
        self.last = self.began = time.monotonic()

    def advance(self, done: int, **figures: float) -> None:
        now = time.monotonic()
        if now - self.last >= self.SECONDS:
            self.last = now
            self.write(f"{self.stage}: {progress_text(done, self.total, self.unit, figures)}")

    def note(self, text: str) -> None:
        self.write(text)

    def finish(self) -> None:
        if self.stage:
            self.write(f"{self.stage}: done in {time.monotonic() - self.began:.1f} s")
            self.stage = ""


ProgressFactory = Callable[[], Progress]
shown_by: ContextVar[ProgressFactory | None] = ContextVar("shown_by", default=None)


def _run_logger() -> logging.LoggerAdapter[logging.Logger]:
    # Commands show progress too, and Prefect must not be imported before its server's address is
    # set: it reads its settings then, and would start a server of its own.
    from prefect.logging import get_run_logger

    return get_run_logger()


def run_warning() -> Callable[[str], None]:
    """Says a warning of the run where the run can be seen, from whatever thread."""
    factory = shown_by.get()
    if factory is None:
        return _run_logger().warning
    shown = factory()
    return lambda text: shown.note(f"Warning: {text}")


class Stoppable:
    """Progress that ends its stage where `stop` is set: for stages that run in threads, which no
    signal reaches. What was fetched so far is kept and resumed."""

    def __init__(self, progress: Progress, stop: threading.Event) -> None:
        self.progress, self.stop = progress, stop

    def start(self, stage: str, total: int | None, unit: str) -> None:
        self._check()
        self.progress.start(stage, total, unit)

    def advance(self, done: int, **figures: float) -> None:
        self._check()
        self.progress.advance(done, **figures)

    def note(self, text: str) -> None:
        self._check()
        self.progress.note(text)

    def finish(self) -> None:
        self.progress.finish()

    def _check(self) -> None:
        if self.stop.is_set():
            raise RunStopped("Stopped while fetching; what has arrived is kept.")


@contextmanager
def stage_progress(stop: threading.Event | None = None) -> Iterator[Progress]:
    """Progress for one stage: what the terminal has set up, else lines in the run's log."""
    factory = shown_by.get()
    progress = factory() if factory else LogLines(_run_logger().info)
    try:
        yield Stoppable(progress, stop) if stop else progress
    finally:
        progress.finish()
