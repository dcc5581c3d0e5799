"""Signals set a flag; a second Ctrl-C is answered at once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from twolevers.interrupt import ending_signals, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_sets_the_flag(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_on_signals() as stop:
        assert not stop
        os.kill(os.getpid(), number)
        assert stop
        assert stop.reason == ("Ctrl-C" if number == signal.SIGINT else number.name)
    assert signal.getsignal(number) is before


def test_a_closed_terminal_is_left_ignored_where_it_was() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert ending_signals() == (signal.SIGTERM,)
        with stop_on_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_ctrl_c_interrupts() -> None:
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert stop


def test_elsewhere_than_in_the_main_thread_it_is_set_by_hand() -> None:
    seen = []

    def run() -> None:
        with stop_on_signals() as stop:
            stop.request("a test")
            stop.request("another")
            seen.append((bool(stop), stop.reason))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(True, "a test")]
