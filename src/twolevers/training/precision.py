"""The precision that a device computes in, as a context around the forward pass.

Parameters, gradients and the optimizer's moments stay float32 whatever the precision: only
matrix products are done in the shorter format (mixed precision, Micikevicius et al. 2018).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from twolevers.device import Device

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def autocast(device: Device, precision: str) -> AbstractContextManager[object]:
    """Matrix products inside the block are done in `precision` (explicit, never `auto`)."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.kind, dtype=DTYPES[precision])


def gradient_scaler(device: Device, precision: str) -> torch.amp.GradScaler:
    """Loss scaling for float16, whose smallest numbers gradients fall below; else it does nothing.

    bfloat16 has float32's range and needs none.
    """
    return torch.amp.GradScaler(device.kind, enabled=precision == "float16")


def synchronise(device: Device) -> None:
    """Waits for the device, so that a clock read next counts what was asked of it so far."""
    if device.kind == "cuda":
        torch.cuda.synchronize(device.name)
    elif device.kind == "mps":
        torch.mps.synchronize()
