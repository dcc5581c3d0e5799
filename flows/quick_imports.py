"""Imports without a search for garbage among what they make.

Importing PyTorch, Prefect and MLflow makes a million objects that stay until the end. Python looks
through all of them for garbage, again and again while they come in and once more at exit: over
three seconds of a run.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """What the block imports is left alone by later searches too."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def exit_quickly() -> None:
    """Spare the exit the search: what is left then goes with the process."""
    atexit.register(gc.freeze)
