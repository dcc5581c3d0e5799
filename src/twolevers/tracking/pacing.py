"""When to send what a run reports: seldom enough to cost next to nothing."""

from __future__ import annotations

import time

SHARE = 0.01
"""Of the time that passes, what sending may take of the processor."""
LONGEST_REST = 60.0
LONGEST_BACK_OFF = 30.0
COST_OF_SENDING = 0.01
"""Processor seconds of one batch, besides what each item in it costs."""


class Pacing:
    """Learns what sending costs, and tries ever more rarely while the store does not answer."""

    def __init__(self) -> None:
        self.failures = 0
        """Tries in a row that the store did not answer."""
        self._last_try = time.monotonic()
        self._cost_of_item = 0.00015

    def is_due(self, gathered: int) -> bool:
        """Whether enough time has passed for what sending so much costs, or for another try."""
        passed = time.monotonic() - self._last_try
        if self.failures:
            return passed >= min(2.0 ** min(self.failures - 1, 9), LONGEST_BACK_OFF)
        cost = COST_OF_SENDING + self._cost_of_item * gathered
        return gathered > 0 and passed >= min(cost / SHARE, LONGEST_REST)

    def try_now(self) -> None:
        """A try begins."""
        self._last_try = time.monotonic()

    def has_cost(self, seconds: float, items: int) -> None:
        """A batch of so many items took so much processor time."""
        if items > 50:  # fewer tell nothing
            cost = max(seconds - COST_OF_SENDING, 0.0) / items
            self._cost_of_item = (self._cost_of_item + cost) / 2
