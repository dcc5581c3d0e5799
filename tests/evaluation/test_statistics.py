"""Bootstrap intervals against SciPy's, and pairs counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from twolevers.evaluation.statistics import interval, paired


def test_interval_is_scipys() -> None:
    values = np.random.default_rng(5).normal(50, 20, size=110).clip(0, 100)
    ours = interval(values.tolist(), seed=1)
    theirs = bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=2
    ).confidence_interval
    assert ours
    assert ours.mean == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.25)
    assert ours.count == 110


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [0.0, 10.0, 50.0, 100.0]
    assert interval(values, seed=3) == interval(values, seed=3)


def test_one_value_equal_values_and_none() -> None:
    one = interval([40.0], seed=1)
    assert one
    assert (one.mean, one.low, one.high) == (40, 40, 40)
    equal = interval([7.0] * 30, seed=1)
    assert equal
    assert (equal.low, equal.high) == (7, 7)
    assert interval([], seed=1) is None


def test_pairs_by_hand() -> None:
    found = paired([10, 50, None, 80, 20], [30, 50, 90, 60, None], seed=1)
    assert found
    assert found.difference.mean == pytest.approx((20 + 0 - 20) / 3)
    assert found.difference.count == 3
    assert (found.wins, found.ties, found.losses) == (1, 1, 1)
    assert -20 <= found.difference.low <= found.difference.high <= 20


def test_a_difference_in_every_pair_is_surer_than_two_means() -> None:
    """What pairs are for: the entries differ widely, the two models by 2 points on each."""
    first = [float(i) for i in range(0, 100, 2)]
    second = [value + 2 for value in first]
    found, alone = paired(first, second, seed=1), interval(second, seed=1)
    assert found
    assert alone
    assert found.difference.high - found.difference.low == pytest.approx(0, abs=1e-9)
    assert alone.high - alone.low > 10


def test_as_many_answers_as_alpaca_has() -> None:
    values = [float(i % 101) for i in range(5_200)]
    found = interval(values, seed=1)
    assert found
    assert found.low < found.mean < found.high


def test_unequally_many_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired([1.0], [1.0, 2.0], seed=1)
