"""Pictures of a run, as PNG files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from twolevers.files import atomic_file
from twolevers.report.texts import seconds_text

if TYPE_CHECKING:
    import pandas as pd

Curve = Sequence[tuple[int, float]]
"""(step, value) pairs, steps rising."""
TITLE_WIDTH = 72
"""Letters that stand beside each other above a curve; data has long paths."""

TRAIN_COLOUR, VAL_COLOUR = "#1f6f8b", "#d1495b"


def literal(text: str) -> str:
    """Text as matplotlib draws it letter by letter: between two `$` it would read a formula."""
    return text.replace("$", r"\$")


def loss_curve(
    path: Path,
    *,
    train: Curve,
    val: Curve,
    tokens_per_step: float,
    title: str,
    unit: str = "nats per token",
) -> Path:
    """Both splits' loss against steps, tokens seen on a second axis: the chapter's figure 7.17.

    Args:
        train, val: losses as evaluated during training, in nats per supervised token or in `unit`.
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
    axes.set_title(literal(textwrap.fill(title, TITLE_WIDTH)), fontsize=11, loc="left")
    axes.set_xlabel("optimizer steps")
    axes.set_ylabel(f"loss ({unit})")
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


def heat_map(path: Path, table: pd.DataFrame, *, title: str) -> Path:
    """The run-time table as colours, darker is slower; what nobody measured stays white.

    Args:
        table: seconds, rows models, columns devices, NaN where nobody measured.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    rows, columns = table.shape
    figure = Figure(figsize=(3 + 2.2 * columns, 1.8 + 0.6 * rows), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(literal(textwrap.fill(title, TITLE_WIDTH)), fontsize=11, loc="left")
    axes.set_xticks(range(columns), [_wrapped(str(name)) for name in table.columns], fontsize=8)
    axes.set_yticks(range(rows), [str(name) for name in table.index], fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    seconds = table.to_numpy(dtype=float)
    measured = seconds[np.isfinite(seconds)]
    if measured.size:
        low, high = float(measured.min()), float(measured.max())
        norm = LogNorm(low / 1.5, high * 1.5)
        axes.imshow(seconds, cmap="YlGnBu", norm=norm, aspect="auto")
        for (row, column), value in np.ndenumerate(seconds):
            if np.isfinite(value):
                colour = "white" if norm(value) > 0.55 else "black"
                text = seconds_text(float(value))
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="png")
    return path


def _wrapped(label: str) -> str:
    """A device's name over several lines: hardware, threads, precision."""
    return "\n".join(wrap(label.replace(", ", ",\n"), 26, replace_whitespace=False))
