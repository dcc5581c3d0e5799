"""A few real steps, timed: what a training call of many such steps will take."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from twolevers.data.batch import collate
from twolevers.data.split import TokenisedSplit
from twolevers.device import Device
from twolevers.models.gpt2 import GPT2
from twolevers.options import FineTuneOptions
from twolevers.training.evaluate import first_batches
from twolevers.training.loss import mean_loss
from twolevers.training.optimizer import make_optimizer
from twolevers.training.precision import autocast, gradient_scaler, synchronise
from twolevers.training.step import optimizer_step
from twolevers.training.workload import Batches, Workload


@dataclass(frozen=True)
class Calibration:
    """Seconds of single steps of the mean size, and of one evaluation of both splits."""

    steps: tuple[float, ...]
    evaluation: float

    def seconds(self, work: Workload) -> tuple[float, float, float]:
        """The training call's expected, lowest and highest wall clock, checkpoints not counted.

        Expected is as if every step took the median of those timed: the first ones are slower,
        while memory is new to the process. Lowest and highest are their quartiles, and at least a
        tenth to each side, for the steps timed are few.
        """
        evaluations = work.evaluations * self.evaluation
        expected, low, high = (
            work.steps * float(seconds) + evaluations
            for seconds in np.quantile(self.steps, (0.5, 0.25, 0.75))
        )
        return expected, min(low, 0.9 * expected), max(high, 1.1 * expected)


def calibrate(
    model: GPT2,
    work: Workload,
    train: TokenisedSplit,
    val: TokenisedSplit,
    options: FineTuneOptions,
    device: Device,
    seconds: float,
) -> Calibration:
    """Time steps of `model`, which is changed by them, for about `seconds`.

    The first step is not counted unless it takes all of the time: it sets up what the others use.
    A step begun is ended.

    Args:
        options: resolved; precision and recipe are used.
    """
    recipe = options.training
    optimizer = make_optimizer(model, recipe)
    scaler = gradient_scaler(device, options.precision)
    share = model.config.dropout == 0
    model.train()

    def step(batches: Batches) -> float:
        started = time.perf_counter()
        optimizer_step(
            model,
            optimizer,
            scaler,
            [collate(rows, share_prefix=share) for rows in batches],
            learning_rate=recipe.learning_rate or 0.0,
            gradient_clip=recipe.gradient_clip,
            device=device,
            precision=options.precision,
        )
        synchronise(device)
        return time.perf_counter() - started

    def evaluation() -> float:
        splits = [first_batches(s, recipe.batch_size, recipe.eval_batches) for s in (train, val)]
        one = splits[0][0]
        share_of_one = one.num_tokens / sum(b.num_tokens for split in splits for b in split)
        with autocast(device, options.precision):
            mean_loss(model, [one])  # takes fresh memory, which those after it find ready
            started = time.perf_counter()
            mean_loss(model, [one])
        return (time.perf_counter() - started) / share_of_one

    ends = time.perf_counter() + seconds
    timed = [step(work.typical[0])]
    for batches in work.typical[1:]:
        if time.perf_counter() >= ends:
            break
        timed.append(step(batches))
    return Calibration(tuple(timed[1:] or timed), evaluation())
