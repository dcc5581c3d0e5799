"""Does the device compute what the CPU computes? Asked before it trains for hours.

Devices have been seen that give a first loss of 19.88 where the CPU has 3.83, and some that go
wrong only from the ninth row of a batch on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from twolevers.data.batch import Batch, Row, collate
from twolevers.errors import DeviceError

TOLERANCE = 1e-3
"""Largest relative difference of the two losses, both in float32."""

LEAST_ROWS = 9


def agreement_batch(train: Sequence[Row], batch_size: int) -> Batch:
    """The first rows of the split, as many as a batch has but at least nine; repeated if fewer."""
    count = max(LEAST_ROWS, batch_size)
    return collate([train[index % len(train)] for index in range(count)], share_prefix=True)


def check_agreement(device_name: str, loss_on: Callable[[str], float]) -> None:
    """Compares one batch's loss on the device with the CPU's.

    Args:
        device_name: what is to train.
        loss_on: the batch's mean loss in float32 on the device of that name.

    Raises:
        DeviceError: they differ by more than `TOLERANCE`, or are no numbers.
    """
    expected, found = loss_on("cpu"), loss_on(device_name)
    if math.isfinite(expected) and abs(found - expected) <= TOLERANCE * abs(expected):
        return
    raise DeviceError(
        f"{device_name} does not compute what the CPU computes: the loss of one batch is "
        f"{found:.4f} on {device_name} and {expected:.4f} on the CPU, in float32. Nothing was "
        "trained. Train with --device cpu, or update PyTorch and the device's driver; "
        "--no-check-device trains nevertheless."
    )
