"""One optimizer step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from twolevers.data.batch import Batch
from twolevers.device import Device
from twolevers.errors import TrainingError
from twolevers.models.gpt2 import GPT2
from twolevers.training.loss import loss_sum
from twolevers.training.optimizer import gradients, total_norm
from twolevers.training.precision import autocast


@dataclass(frozen=True)
class StepFigures:
    """`loss` in nats per supervised token, before the update; `grad_norm` before clipping."""

    loss: float
    grad_norm: float
    tokens: int


def optimizer_step(
    model: GPT2,
    optimizer: torch.optim.AdamW,
    scaler: torch.amp.GradScaler,
    batches: Sequence[Batch],
    *,
    learning_rate: float,
    gradient_clip: float | None,
    device: Device,
    precision: str,
) -> StepFigures:
    """Updates the model by the gradient that the one combined batch would have.

    Each batch's summed loss is divided by the supervised tokens of all of them, so that a batch
    counts by its tokens and it makes no difference how many batches a step is cut into.

    Raises:
        TrainingError: loss or gradient is no finite number. The weights are untouched.
    """
    supervised = sum(batch.num_supervised for batch in batches)
    mean = 0.0
    for batch in batches:
        with autocast(device, precision):
            loss = loss_sum(model, batch.to(device.name), divisor=supervised)
        scaler.scale(loss).backward()
        mean += loss.item()
    if not math.isfinite(mean):
        raise TrainingError(f"The loss is {mean}")

    scaler.unscale_(optimizer)
    norm = total_norm(gradients(model))
    grad_norm = norm.item()
    if gradient_clip is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), gradient_clip, norm)
    if not math.isfinite(grad_norm) and not scaler.is_enabled():  # else the scaler skips the step
        raise TrainingError(f"The gradient's norm is {grad_norm}")

    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return StepFigures(mean, grad_norm, sum(batch.num_tokens for batch in batches))
