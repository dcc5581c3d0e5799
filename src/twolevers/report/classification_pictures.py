"""Pictures of a classifier, as PNG files."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twolevers.files import atomic_file
from twolevers.report.pictures import TITLE_WIDTH, TRAIN_COLOUR, VAL_COLOUR, literal

MOST_NUMBERS = 25
"""Labels up to which a number fits into every field."""
MOST_NAMES = 150
"""Labels up to which each has room for its name."""


def confusion_picture(
    path: Path, confusion: Sequence[Sequence[int]], labels: Sequence[str], *, title: str
) -> Path:
    """What was answered (across) to what is right (down); darker is a larger share of its row.

    Args:
        confusion: (K, K) counts, rows what is right.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = np.asarray(confusion)
    size = min(3.2 + 0.45 * len(labels), 14)
    figure = Figure(figsize=(size + 1, size), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    totals = counts.sum(1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    axes.imshow(shares, cmap="YlGnBu", vmin=0, vmax=1)
    places = range(len(labels)) if len(labels) <= MOST_NAMES else range(0)
    names = [literal(textwrap.shorten(labels[place], 24, placeholder="…")) for place in places]
    small = 9 if len(labels) <= MOST_NUMBERS else 5
    turned = 0 if len(labels) <= 4 else 90
    axes.set_xticks(places, names, fontsize=small, rotation=turned)
    axes.set_yticks(places, names, fontsize=small)
    axes.set_xlabel("answered")
    axes.set_ylabel("right")
    axes.tick_params(length=0)
    title = textwrap.fill(title, int(TITLE_WIDTH * size / 8))
    axes.set_title(literal(title), fontsize=10, loc="left")
    if len(labels) <= MOST_NUMBERS:
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > 0.55 else "black"
            axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour)
    return _saved(figure, path)


def reliability_picture(
    path: Path, reliability: Sequence[Mapping[str, Any]], *, title: str
) -> Path:
    """How often answers are right against how sure of them the classifier is.

    Args:
        reliability: `low`, `high`, `count`, `confidence`, `accuracy` of each range.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 4.6), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    some = [one for one in reliability if one["count"]]
    axes.bar(
        [one["low"] for one in some],
        [one["accuracy"] for one in some],
        width=[one["high"] - one["low"] for one in some],
        align="edge",
        color=TRAIN_COLOUR,
        alpha=0.6,
        edgecolor="white",
        label="share that is right",
    )
    axes.plot([0, 1], [0, 1], "--", color=VAL_COLOUR, linewidth=1.2, label="as sure as right")
    for one in some:
        axes.text(
            (one["low"] + one["high"]) / 2, 0.02, f"{one['count']:,}", ha="center", fontsize=7
        )
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="share that is right")
    axes.set_title(literal(textwrap.fill(title, 48)), fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="png")
    return path
