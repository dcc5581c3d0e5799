"""Curves as small SVG drawings for the pages: coloured by the page, so by light and dark alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twolevers.report.pictures import Curve

WIDTH, HEIGHT = 440.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 12.0, 34.0, 36.0
MOST_POINTS = 400
"""A line of more is thinned out: the drawing is some 400 pixels wide."""
NUM_HUES = 5


@dataclass(frozen=True)
class Line:
    """One curve and how it is told from the others."""

    label: str
    points: Curve
    hue: int = 1
    """1 to `NUM_HUES`: colour and dashes, as `page.css` has them."""
    faded: bool = False


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where, in the drawing's units, and what it reads."""

    at: float
    text: str


@dataclass(frozen=True)
class Drawing:
    """What the template `curves.svg` draws."""

    title: str
    unit: str
    lines: tuple[tuple[Line, str], ...]
    """With the polyline's points as SVG writes them."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    upper_ticks: tuple[Tick, ...]
    """Tokens seen, in thousands; none where they are not known."""

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


def draw(
    title: str, unit: str, lines: Sequence[Line], *, tokens_per_step: float = 0.0
) -> Drawing | None:
    """Curves over optimizer steps, from zero up; None where there is no point to draw.

    Args:
        unit: of the values.
        tokens_per_step: scales a second axis in thousand tokens seen; 0: no such axis.
    """
    drawn = [line for line in lines if line.points]
    if not drawn:
        return None
    last = max(max(line.points[-1][0] for line in drawn), 1)
    y_values = _ticks(max(max(value for _, value in line.points) for line in drawn), integer=False)
    high = y_values[-1]
    x_of = (WIDTH - RIGHT - LEFT) / last
    y_of = (HEIGHT - BOTTOM - TOP) / high
    thousands = tokens_per_step / 1e3

    def placed(points: Curve) -> str:
        return " ".join(
            f"{LEFT + step * x_of:.1f},{HEIGHT - BOTTOM - value * y_of:.1f}"
            for step, value in thinned(points, MOST_POINTS)
        )

    return Drawing(
        title=title,
        unit=unit,
        lines=tuple((line, placed(line.points)) for line in drawn),
        x_ticks=_axis(_ticks(last, integer=True), x_of, last),
        y_ticks=tuple(Tick(HEIGHT - BOTTOM - y * y_of, f"{y:,g}") for y in y_values),
        upper_ticks=_axis(_ticks(last * thousands, integer=False), x_of / thousands, last)
        if thousands
        else (),
    )


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Every n-th point, and the last, so that about `most` are left."""
    every = max(-(-len(points) // most), 1)
    return [*points[:-1:every], *points[-1:]]


def _axis(values: Sequence[float], scale: float, last: float) -> tuple[Tick, ...]:
    end = WIDTH - RIGHT
    places = ((LEFT + value * scale, value) for value in values)
    return tuple(Tick(at, f"{value:,g}") for at, value in places if at <= end + 0.5)


def _ticks(high: float, *, integer: bool) -> list[float]:
    """Round values from 0 to `high` or just above it."""
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(5, integer=integer, steps=[1, 2, 2.5, 5, 10])
    return [float(value) for value in locator.tick_values(0.0, high if high > 0 else 1.0)]
