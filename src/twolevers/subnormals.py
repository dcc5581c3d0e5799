"""Lets the processor take numbers next to zero as zero, as GPUs do in their fast modes.

Float32 below 1.2e-38 is subnormal: x86 processors compute with such numbers in microcode, a
hundred times slower. The softmax over 50,257 tokens gives many to a model that is sure of its
answer, and its gradient carries them into the largest matrix products. They change no loss and no
weight that float32 could show (AdamW adds 1e-8 to the root of its second moment).

The setting is a thread's (MXCSR on x86, FPCR on ARM) and goes to the threads it starts, so it is
made before the first computation. Where the processor has no such setting nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SMALLEST_NORMAL = 2.0**-126


@contextmanager
def flushed_subnormals() -> Iterator[None]:
    """While inside, subnormal numbers count as zero in this thread and those it starts.

    Afterwards this thread computes as before; threads that it started keep the setting, and
    PyTorch's are among them. May be entered again inside itself.
    """
    before = _flushes()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _flushes() -> bool:
    """One element is computed in this thread."""
    return (torch.full((), _SMALLEST_NORMAL) / 2).item() == 0.0
