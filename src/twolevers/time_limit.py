"""A limit on how long something is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable


def within(seconds: float, call: Callable[[], object]) -> None:
    """Run `call`, waiting at most so long; a call that takes longer is left to itself.

    Raises:
        TimeoutError: it took longer. Otherwise whatever `call` raised.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"not done after {seconds:g} s")
    if failures:
        raise failures[0]
