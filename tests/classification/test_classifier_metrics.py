"""Scores against figures worked out by hand, and against scikit-learn's own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from twolevers.classification.metrics import class_scores, reliability_table

RIGHT = np.array([0, 0, 0, 0, 1, 1])
PROBABILITIES = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.3, 0.7], [0.6, 0.4]])
"""Answers 0 0 0 1 1 0: 3 of 4 zeros found, 1 of 2 ones."""


def test_by_hand() -> None:
    scores = class_scores(RIGHT, PROBABILITIES)
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.balanced_accuracy == pytest.approx((3 / 4 + 1 / 2) / 2)
    # F1 of 0: 3 of 4 answers right, 3 of 4 found; of 1: 1 of 2, 1 of 2.
    assert scores.macro_f1 == pytest.approx((0.75 + 0.5) / 2)
    assert scores.confusion == [[3, 1], [1, 1]]
    # Confidence 0.9, 0.8, 0.7 (right), 0.6 (wrong), 0.7 (right), 0.6 (wrong).
    apart = 1 * abs(1 - 0.9) + 1 * abs(1 - 0.8) + 2 * abs(1 - 0.7) + 2 * abs(0 - 0.6)
    assert scores.calibration_error == pytest.approx(apart / 6)


def test_a_label_that_never_occurs() -> None:
    wide = np.pad(PROBABILITIES, ((0, 0), (0, 1)))
    scores = class_scores(RIGHT, wide)
    assert scores.balanced_accuracy == pytest.approx(balanced_accuracy_score(RIGHT, wide.argmax(1)))
    assert scores.macro_f1 == class_scores(RIGHT, PROBABILITIES).macro_f1
    assert [len(row) for row in scores.confusion] == [3, 3, 3]


def test_always_the_same_answer_is_worth_little() -> None:
    right = np.array([0] * 9 + [1])
    scores = class_scores(right, np.tile([0.9, 0.1], (10, 1)))
    assert scores.accuracy == 0.9
    assert scores.balanced_accuracy == 0.5
    assert scores.macro_f1 == pytest.approx(18 / 19 / 2)
    assert scores.calibration_error == pytest.approx(0.0, abs=1e-12)


def test_ranges_of_confidence() -> None:
    table = reliability_table(np.array([True, False, True]), np.array([1.0, 0.5, 0.51]))
    assert [one.count for one in table] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1]
    assert (table[9].confidence, table[9].accuracy) == (1.0, 1.0)
    assert (table[0].confidence, table[0].accuracy) == (None, None)
