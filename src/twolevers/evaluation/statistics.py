"""How sure a mean is: bootstrap intervals, and two models compared answer by answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twolevers.records import Record

CONFIDENCE = 0.95
RESAMPLES = 10_000
_DRAWN_AT_ONCE = 2_000_000


class Interval(Record):
    """A mean and its percentile bootstrap interval (Efron 1979) of 95 %.

    What it leaves out: it says how far the mean would move with other entries of the same kind,
    not whether the judge is right, and it is too narrow for fewer than about 20 values.
    """

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


class Paired(Record):
    """The second of two models against the first on the same entries."""

    difference: Interval
    """Of the second less the first."""
    wins: int
    """Entries on which the second is better."""
    ties: int
    losses: int


def interval(values: Sequence[float], *, seed: int) -> Interval | None:
    """Mean of `values` with its interval; None where there is no value.

    Args:
        seed: the same values and seed give the same interval.
    """
    if not values:
        return None
    numbers, draw = np.asarray(values, dtype=np.float64), np.random.default_rng(seed)
    count = len(numbers)
    means = np.empty(RESAMPLES)
    step = max(_DRAWN_AT_ONCE // count, 1)
    for begin in range(0, RESAMPLES, step):
        part = means[begin : begin + step]
        part[:] = numbers[draw.integers(count, size=(len(part), count))].mean(axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(mean=float(numbers.mean()), low=float(low), high=float(high), count=count)


def paired(
    first: Sequence[float | None], second: Sequence[float | None], *, seed: int
) -> Paired | None:
    """The second against the first, entry by entry; an entry that lacks one of them counts in
    neither. None where no entry has both.

    Raises:
        ValueError: unequally many.
    """
    differences = [
        two - one
        for one, two in zip(first, second, strict=True)
        if one is not None and two is not None
    ]
    found = interval(differences, seed=seed)
    if found is None:
        return None
    return Paired(
        difference=found,
        wins=sum(difference > 0 for difference in differences),
        ties=sum(difference == 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
    )
