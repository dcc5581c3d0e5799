"""What the core says about how far it is; who shows it, and how, is not its affair."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Told about every unit of work. Calls come often and must be cheap."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """A stage begins (`download`, `fine-tune`); it has `total` units, or nobody knows."""

    def advance(self, done: int, **figures: float) -> None:
        """`done` units are done in all; figures as named: `loss`, `tokens_per_second`."""

    def note(self, text: str) -> None:
        """One line that a reader wants to keep: an evaluation, a checkpoint."""

    def finish(self) -> None:
        """The stage is over."""


class Silent:
    """Shows nothing."""

    def start(self, stage: str, total: int | None, unit: str) -> None: ...

    def advance(self, done: int, **figures: float) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self) -> None: ...


class Pace:
    """How far a stage is and how long it takes yet, by the pace since its first unit was seen: a
    stage that goes on after a break does not begin at nought, and the first unit is the slowest."""

    def __init__(self, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.clock, self.done = total, clock, 0
        self.now = 0.0
        self.first: tuple[int, float] | None = None

    def advance(self, done: int) -> None:
        self.done, self.now = done, self.clock()
        self.first = self.first or (done, self.now)

    @property
    def percent(self) -> float:
        return 100 * self.done / self.total if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """None while nobody can know."""
        if self.first is None or not self.total or self.done <= self.first[0]:
            return None
        began_at, began = self.first
        return (self.total - self.done) * (self.now - began) / (self.done - began_at)
