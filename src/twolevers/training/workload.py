"""What a training call will read: known from the rows' lengths before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twolevers.data.batch import Row
from twolevers.data.order import batch_order
from twolevers.data.split import TokenisedSplit
from twolevers.options import TrainingOptions

Batches = list[list[Row]]
"""The batches of one optimizer step."""


@dataclass(frozen=True)
class Workload:
    """Steps, tokens and evaluations of a whole training call, and steps that stand for it."""

    steps: int
    tokens: int
    """Read in optimizer steps, padding never counted."""
    evaluations: int
    """Those that are timed: every `eval_every` steps, and after the last."""
    typical: list[Batches]
    """Steps of the first epoch, the nearest to the mean of tokens first."""
    largest: list[Row]
    """The batch of most tokens in any epoch; what is held in memory goes by it."""


def workload(train: TokenisedSplit, recipe: TrainingOptions, typical: int = 16) -> Workload:
    """The workload of `recipe` on the training split.

    Args:
        typical: steps to choose.

    Raises:
        InputError: the split does not fill one batch.
    """
    lengths = train.lengths - 1  # the last token of a row is a target only
    accumulate = recipe.gradient_accumulation_steps
    tokens, largest, first_steps = 0, (0, [0]), []
    for epoch in range(recipe.epochs):
        order = batch_order(
            len(train), recipe.batch_size, seed=recipe.seed, epoch=epoch, drop_last=recipe.drop_last
        )
        sums = [int(lengths[batch].sum()) for batch in order]
        tokens += sum(sums)
        largest = max(largest, (max(sums), order[int(np.argmax(sums))]))
        if epoch == 0:
            starts = range(0, len(order), accumulate)
            first_steps = [
                (sum(sums[i : i + accumulate]), order[i : i + accumulate]) for i in starts
            ]
    steps = len(first_steps) * recipe.epochs
    mean = tokens / steps
    near = sorted(first_steps, key=lambda step: abs(step[0] - mean))[:typical]
    evaluations = -(-steps // recipe.eval_every) + ((steps - 1) % recipe.eval_every != 0)
    return Workload(
        steps,
        tokens,
        evaluations,
        [[[train[i] for i in batch] for batch in step] for _, step in near],
        [train[i] for i in largest[1]],
    )
