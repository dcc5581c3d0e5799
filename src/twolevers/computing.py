"""What this process sets while it computes with a model: entered by every stage that does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twolevers.allocator import kept_memory
from twolevers.primitives import bound_primitives
from twolevers.subnormals import flushed_subnormals


@contextmanager
def computing() -> Iterator[None]:
    """Memory is kept for the next step, prepared products only within bounds, and subnormal
    numbers count as zero."""
    bound_primitives()
    with kept_memory(), flushed_subnormals():
        yield
