"""The same seed, the same numbers; and the caller's own random numbers left as they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from twolevers.device import Device


@contextmanager
def reproducible(device: Device, seed: int, *, deterministic: bool) -> Iterator[None]:
    """Random numbers from `seed` inside the block (dropout reads PyTorch's global ones).

    Args:
        deterministic: on CUDA only algorithms that give the same bits twice, slower ones. A CPU
            gives the same bits anyway, as long as the number of threads is the same.
    """
    on_cuda = device.kind == "cuda"
    before = torch.are_deterministic_algorithms_enabled()
    if on_cuda and deterministic:
        # Read by cuBLAS when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        with torch.random.fork_rng(devices=[device.name] if on_cuda else []):
            torch.manual_seed(seed)
            yield
    finally:
        torch.use_deterministic_algorithms(before)
