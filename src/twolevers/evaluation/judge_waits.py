"""How often and after which waits a judge that gave no reply is asked again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from twolevers.evaluation.judge_faults import MayPass

Sleep = Callable[[float], Awaitable[None]]
ATTEMPTS = 6
LONGEST_WAIT = 120.0
"""Longest wait between two attempts in seconds, whatever the server says."""
SAID_WAIT = 10.0
"""Seconds of a wait that is said."""
_back_off = wait_random_exponential(multiplier=1, max=30)


def attempts(sleep: Sleep, say: Callable[[str], None]) -> AsyncRetrying:
    """Attempts at a call that may fail with `MayPass`.

    Args:
        sleep: waits between two of them.
        say: is told of long waits.
    """

    def say_long_waits(state: RetryCallState) -> None:
        if state.upcoming_sleep >= SAID_WAIT and state.outcome:
            why = state.outcome.exception()
            say(f"The judge {why}; it is asked again in {state.upcoming_sleep:.0f} s.")

    return AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=_wait,
        retry=retry_if_exception(_worth_waiting),
        sleep=sleep,
        before_sleep=say_long_waits,
        reraise=True,
    )


def _worth_waiting(error: BaseException) -> bool:
    """Not where the server asks for more than all attempts together would wait: it would say no
    to each of them."""
    if not isinstance(error, MayPass):
        return False
    return (error.retry_after or 0.0) <= LONGEST_WAIT * (ATTEMPTS - 1)


def _wait(state: RetryCallState) -> float:
    """As long as the server says, else longer with every attempt, never equally long for all."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, MayPass) else None
    return min(asked if asked is not None else _back_off(state), LONGEST_WAIT)
