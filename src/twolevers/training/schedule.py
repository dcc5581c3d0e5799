"""The learning rate of each step."""

from __future__ import annotations

import math

from twolevers.errors import InputError, Problem
from twolevers.options import TrainingOptions


def learning_rate_at(step: int, total_steps: int, options: TrainingOptions) -> float:
    """Learning rate of the optimizer step `step`, counted from 0.

    Linear warm-up reaches the full rate at step `warmup_steps - 1`; its first step is not lost
    to a rate of zero. After it `constant`, or a half cosine that would be zero at `total_steps`
    (Loshchilov and Hutter 2017; `get_cosine_schedule_with_warmup` in transformers).
    """
    if options.learning_rate is None:
        raise ValueError("options are not resolved: learning_rate is None")
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    if options.lr_schedule == "constant":
        return options.learning_rate
    done = (step - options.warmup_steps) / (total_steps - options.warmup_steps)
    return options.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))


def check_warmup(total_steps: int, options: TrainingOptions) -> None:
    """Raises InputError where warm-up would leave no step to train at the full rate."""
    if options.warmup_steps >= total_steps:
        raise InputError(
            Problem(
                "--warmup-steps",
                options.warmup_steps,
                f"all of training takes {total_steps} steps",
                f"take fewer than {total_steps}, or train for more epochs",
            )
        )
