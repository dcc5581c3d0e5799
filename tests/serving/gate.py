"""A model whose passes a test counts out."""

from __future__ import annotations

import threading

from twolevers.models.gpt2 import GPT2


class Gate:
    """Lets a model compute so many passes and no more, until it is opened."""

    def __init__(self, model: GPT2) -> None:
        self._passes = threading.Semaphore(0)
        self._opened = False
        self._hook = model.register_forward_pre_hook(self._wait)

    def _wait(self, *_: object) -> None:
        while not self._opened and not self._passes.acquire(timeout=0.02):
            pass

    def let(self, passes: int) -> None:
        self._passes.release(passes)

    def open(self) -> None:
        self._opened = True

    def remove(self) -> None:
        self.open()
        self._hook.remove()


def open_gates(model: GPT2) -> None:
    """So that what a test that failed held back comes to its end."""
    for hook in list(model._forward_pre_hooks.values()):
        hook.__self__.open()  # type: ignore[attr-defined]
