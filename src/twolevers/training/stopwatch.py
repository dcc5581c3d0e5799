"""Where the time of a training call goes, in seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PARTS = ("steps", "evaluations", "checkpoints")


@dataclass
class Stopwatch:
    """Adds up the parts of training and the whole; goes on from where a stopped run stood.

    Parts: `steps` (optimizer steps), `evaluations` (every few steps), `checkpoints` (writing
    them, and the loss over the whole validation split that decides which is best). The whole is
    what chapter 7 times: everything but `checkpoints`.
    """

    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    before: float = 0.0
    """Seconds that earlier calls trained."""
    _started: float = field(default_factory=time.perf_counter)
    _paused: float = 0.0

    @classmethod
    def continued(cls, parts: dict[str, float], train_seconds: float) -> Stopwatch:
        """Started now, on top of what earlier calls measured."""
        return cls({part: parts.get(part, 0.0) for part in PARTS}, train_seconds)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - started
            self.parts[part] += seconds
            if part == "checkpoints":
                self._paused += seconds

    @property
    def train_seconds(self) -> float:
        """Seconds trained so far. Read outside of a `measure("checkpoints")` block."""
        return self.before + time.perf_counter() - self._started - self._paused
