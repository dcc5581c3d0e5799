"""How good a classifier's answers are. Scores are fractions from 0 to 1.

Letters: n texts, K labels.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 10
Labels = npt.NDArray[np.int64]
Probabilities = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """The answers of one range of confidence."""

    low: float
    high: float
    count: int
    confidence: float | None
    """Mean probability of the label that was answered; None where no answer lies here."""
    accuracy: float | None


@dataclass(frozen=True)
class AnswerScores:
    """`accuracy`: share of right answers; of unequal labels it says little, see the majority's.
    `balanced_accuracy`: mean over the labels that occur of the share found (recall).
    `macro_f1`: mean over the labels that occur or are answered of F1; a rare label counts as much
    as a common one, so it moves much by few texts.
    """

    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    confusion: list[list[int]]
    """(K, K), or (K, K + 1) where some answer is no label at all: rows what is right, columns what
    was answered."""


@dataclass(frozen=True)
class ClassScores(AnswerScores):
    """`calibration_error`: by how much confidence is off, averaged over the answers, in 10 ranges
    of equal width (Naeini et al. 2015, Guo et al. 2017). It sees the answered label alone, and
    with few texts in a range much of it is chance.
    """

    calibration_error: float
    reliability: list[Bin]

    def tables(self) -> dict[str, Any]:
        return {"confusion": self.confusion, "reliability": [asdict(b) for b in self.reliability]}


def answer_scores(right: Labels, answered: Labels, num_labels: int) -> AnswerScores:
    """Scores of answers.

    Args:
        right: (n,) the right labels, by their place in the order.
        answered: (n,) likewise; K (`num_labels`) for an answer that is no label.
    """
    from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, recall_score

    occurring = np.unique(right)
    seen = np.unique([*right, *answered[answered < num_labels]])
    columns = num_labels + bool((answered == num_labels).any())
    means: dict[str, Any] = {"average": "macro", "zero_division": 0}
    confusion = confusion_matrix(right, answered, labels=range(columns))[:num_labels]
    return AnswerScores(
        accuracy=float(accuracy_score(right, answered)),
        balanced_accuracy=float(recall_score(right, answered, labels=occurring, **means)),
        macro_f1=float(f1_score(right, answered, labels=seen, **means)),
        confusion=confusion.tolist(),
    )


def class_scores(right: Labels, probabilities: Probabilities) -> ClassScores:
    """Scores of the likeliest label of each text.

    Args:
        right: (n,) the right labels, by their place in the order.
        probabilities: (n, K); of equal ones the first is answered.
    """
    answered = probabilities.argmax(1)
    reliability = reliability_table(answered == right, probabilities.max(1))
    return ClassScores(
        **vars(answer_scores(right, answered, probabilities.shape[1])),
        calibration_error=calibration_error(reliability),
        reliability=reliability,
    )


def reliability_table(is_right: npt.NDArray[np.bool_], confidence: Probabilities) -> list[Bin]:
    """Answers by confidence, in `BINS` ranges of equal width; a range holds its upper end."""
    places = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    bins = []
    for place in range(BINS):
        here = places == place
        some = bool(here.any())
        bins.append(
            Bin(
                place / BINS,
                (place + 1) / BINS,
                int(here.sum()),
                float(confidence[here].mean()) if some else None,
                float(is_right[here].mean()) if some else None,
            )
        )
    return bins


def calibration_error(reliability: list[Bin]) -> float:
    """Expected calibration error: each range's |accuracy - confidence|, weighted by its answers."""
    total = sum(one.count for one in reliability)
    apart = (
        one.count * abs(one.accuracy - one.confidence)
        for one in reliability
        if one.accuracy is not None and one.confidence is not None
    )
    return sum(apart) / total
