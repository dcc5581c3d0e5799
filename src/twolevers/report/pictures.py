"""Pictures of a run, as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from twolevers.files import atomic_file

Curve = Sequence[tuple[int, float]]
"""(step, value) pairs, steps rising."""

TRAIN_COLOUR, VAL_COLOUR = "#1f6f8b", "#d1495b"


def loss_curve(path: Path, *, train: Curve, val: Curve, tokens_per_step: float, title: str) -> Path:
    """Both splits' loss against steps, tokens seen on a second axis: the chapter's figure 7.17.

    Args:
        train, val: losses in nats per supervised token, as evaluated during training.
        tokens_per_step: mean tokens an optimizer step reads; scales the upper axis.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for curve, label, colour, style in (
        (train, "training", TRAIN_COLOUR, "-"),
        (val, "validation", VAL_COLOUR, "-."),
    ):
        if curve:
            steps, losses = zip(*curve, strict=True)
            end = f"{label}, {losses[-1]:.2f} at the end"
            axes.plot(steps, losses, style, label=end, color=colour, linewidth=1.6)
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_xlabel("optimizer steps")
    axes.set_ylabel("loss (nats per token)")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.spines[["right"]].set_visible(False)
    if tokens_per_step > 0:
        thousands = tokens_per_step / 1e3

        def to_tokens(steps: npt.ArrayLike) -> npt.ArrayLike:
            return np.asarray(steps) * thousands

        def to_steps(tokens: npt.ArrayLike) -> npt.ArrayLike:
            return np.asarray(tokens) / thousands

        upper = axes.secondary_xaxis("top", functions=(to_tokens, to_steps))
        upper.set_xlabel("thousand tokens seen")
    if axes.lines:
        axes.legend(frameon=False)
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="png")
    return path
