"""A few real steps, timed: what a training call of many such steps will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from twolevers.data.batch import Batch, Row, collate
from twolevers.data.split import TokenisedSplit
from twolevers.device import Device
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.options import FineTuneOptions
from twolevers.training.evaluate import first_batches
from twolevers.training.loss import mean_loss
from twolevers.training.optimizer import make_optimizer
from twolevers.training.precision import autocast, gradient_scaler, synchronise
from twolevers.training.step import optimizer_step
from twolevers.training.workload import Batches, Workload

_SHARE_OF_STEPS = 0.75
"""Of the time; the rest is for evaluations."""
_SHARE_OF_TRAINING = 0.1
"""Of the time that training seems to take: a short run does not wait long for its forecast."""
_STEPS = 3
"""Beside the first; so many are timed however short the training is."""
_EVALUATIONS = 9
_FRESH = 64 * 2**20
"""Bytes of memory whose first use is timed."""


@dataclass(frozen=True)
class Calibration:
    """Seconds of a forward pass over a step's tokens, of single optimizer steps of the mean size,
    and of evaluations of both splits."""

    forward: float
    first: float | None
    """The first step, which takes fresh memory for gradients and moments. None: it would have
    taken longer than there was time."""
    steps: tuple[float, ...]
    """The others."""
    evaluations: tuple[float, ...]

    def seconds(self, work: Workload) -> tuple[float, float, float | None]:
        """The training call's expected, lowest and highest wall clock, checkpoints not counted.

        Expected is the first step, the median for the others, and the median evaluation. Lowest
        and highest are the steps' quartiles, and at least a tenth to each side, for the steps
        timed are few. The first step alone tells what it takes at most: lowest is 0. Without a
        step, one counts as three forward passes, for the backward pass has two products for each
        of theirs (Kaplan et al. 2020); how far off that is nobody measured, so highest is None.
        """
        evaluations = work.evaluations * float(np.median(self.evaluations))
        if self.first is None:
            return work.steps * 3 * self.forward + evaluations, 0.0, None
        fixed = self.first + evaluations
        expected, low, high = (
            fixed + (work.steps - 1) * float(seconds)
            for seconds in np.quantile(self.steps or self.first, (0.5, 0.25, 0.75))
        )
        if not self.steps:
            return expected, 0.0, 1.1 * expected
        return expected, min(low, 0.9 * expected), max(high, 1.1 * expected)

    @property
    def source(self) -> str:
        """What was timed, in words."""
        if self.first is None:
            return "a forward pass timed here, three to a step"
        steps = len(self.steps)
        return f"{steps} step{'s' * (steps != 1)} timed here" if steps else "the first step alone"


def warm_up(device: Device) -> None:
    """One step of a model of next to no size.

    PyTorch's libraries load their code and take scratch memory when they first compute, some
    90 MiB on a CPU: the process holds it whatever model it trains.
    """
    config = GPT2Config(emb_dim=64, num_layers=1, num_heads=1)
    model = GPT2(config).initialise(0).to(device.name)
    optimizer_step(
        model,
        torch.optim.AdamW(model.parameters(), fused=True),
        gradient_scaler(device, "float32"),
        [collate([Row([0] * 64)] * 8, share_prefix=False)],
        learning_rate=0.0,
        gradient_clip=None,
        device=device,
        precision="float32",
    )


def calibrate(
    model: GPT2,
    work: Workload,
    train: TokenisedSplit,
    val: TokenisedSplit,
    options: FineTuneOptions,
    device: Device,
    seconds: float,
) -> Calibration:
    """Time steps of `model`, which is changed by them, and evaluations, for about `seconds`, or
    less where training itself is short.

    As the training call does it: an evaluation that is not timed, and then steps. No step is begun
    where a forward pass shows that even the first would not end in time.

    Args:
        options: resolved; precision and recipe are used.
    """
    recipe = options.training
    optimizer = make_optimizer(model, recipe)
    scaler = gradient_scaler(device, options.precision)
    share = model.config.dropout == 0
    evaluated = [
        batch
        for split in (train, val)
        for batch in first_batches(split, recipe.batch_size, recipe.eval_batches)
    ]
    one = evaluated[0].to(device.name)
    evaluations_of_one = sum(batch.num_tokens for batch in evaluated) / one.num_tokens

    def step(batches: Batches) -> None:
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

    def evaluate(batch: Batch) -> None:
        with autocast(device, options.precision):
            mean_loss(model, [batch])

    def timed(work: Callable[[], object]) -> float:
        synchronise(device)
        started = time.perf_counter()
        work()
        synchronise(device)
        return time.perf_counter() - started

    started = time.perf_counter()
    model.train()
    rows = [row for batch in work.typical[0] for row in batch]
    a_step = collate(rows, share_prefix=True).to(device.name)
    evaluate(a_step)  # takes fresh memory, which the next finds ready
    forward = min(timed(partial(evaluate, a_step)) for _ in range(2))
    fresh = timed(lambda: torch.ones(_FRESH // 4, device=device.name)) / _FRESH
    # Gradients and two moments are new to the process.
    new_bytes = 3 * sum(p.numel() * p.element_size() for p in model.parameters())
    needed = 3 * forward + new_bytes * fresh
    if time.perf_counter() - started + needed > seconds:
        tokens = sum(batch.num_tokens for batch in evaluated)
        return Calibration(forward, None, (), (forward * tokens / a_step.num_tokens,))
    evaluate(one)
    first = timed(lambda: step(work.typical[0]))
    steps: list[float] = []
    evaluations = [evaluations_of_one * timed(partial(evaluate, one))]
    training, *_ = Calibration(forward, first, (), tuple(evaluations)).seconds(work)
    enough = min(seconds, _SHARE_OF_TRAINING * training)
    for batches in work.typical[1:]:
        spent, limit = time.perf_counter() - started, enough if len(steps) >= _STEPS else seconds
        if spent >= _SHARE_OF_STEPS * limit:
            break
        steps.append(timed(partial(step, batches)))
    while len(evaluations) < _EVALUATIONS and time.perf_counter() - started < enough:
        evaluations.append(evaluations_of_one * timed(partial(evaluate, one)))
    return Calibration(forward, first, tuple(steps), tuple(evaluations))
