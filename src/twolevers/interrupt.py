"""Stopping between two steps: Ctrl-C, SIGTERM and SIGHUP set a flag that the loop reads."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """Set by a signal or by `request`; read by the loop between two steps."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason = ""

    def request(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()


def ending_signals() -> tuple[signal.Signals, ...]:
    """What ends a process beside Ctrl-C: SIGTERM, and SIGHUP, which comes when its terminal is
    closed, unless that is ignored, as under `nohup`."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return (signal.SIGTERM,)
    return (signal.SIGTERM, hangup)


@contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """The flag that SIGINT (Ctrl-C), SIGTERM and SIGHUP set while the block runs.

    A second Ctrl-C is answered at once with KeyboardInterrupt, for a step that takes too long.
    Outside the main thread signals cannot be handled; the flag is then set by hand alone.
    """
    flag = StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if flag and number == signal.SIGINT:
            raise KeyboardInterrupt
        flag.request("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)

    before = {
        number: signal.signal(number, handle) for number in (signal.SIGINT, *ending_signals())
    }
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
