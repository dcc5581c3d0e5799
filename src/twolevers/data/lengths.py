"""Lengths of rows in tokens, in short: a summary, and bins for a picture."""

from __future__ import annotations

import numpy as np

_STEPS = [step * scale for scale in (1, 10, 100, 1_000) for step in (1, 2, 5)]
_MAX_BINS = 14


def summary(lengths: np.ndarray) -> dict[str, float]:
    """Of lengths (N,) in tokens: the range, the middle and the sum."""
    return {
        "shortest": int(lengths.min()),
        "mean": round(float(lengths.mean()), 1),
        "median": float(np.median(lengths)),
        "95th percentile": round(float(np.percentile(lengths, 95)), 1),
        "longest": int(lengths.max()),
        "total": int(lengths.sum()),
    }


def histogram(lengths: np.ndarray) -> dict[str, list[int]]:
    """Rows by their length, in bins of a round number of tokens; the last holds all that is
    longer, so that a few long rows do not press the others into one bin."""
    low, (ninth, last) = int(lengths.min()), np.percentile(lengths, [90, 99], method="higher")
    high = min(int(last), 3 * int(ninth))  # of few rows, the longest is the 99th percentile
    step = next((step for step in _STEPS if (high - low) / step < _MAX_BINS - 1), _STEPS[-1])
    first = low // step
    num_bins = min(high // step - first + 1, _MAX_BINS)
    bins = np.minimum(lengths // step - first, num_bins - 1)
    edges = [step * (first + place) for place in range(num_bins)]
    return {"edges": edges, "counts": np.bincount(bins, minlength=num_bins).tolist()}
