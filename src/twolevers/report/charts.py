"""Interactive charts of a run or a table as one HTML file, for MLflow's page of artifacts.

The drawing library is plotly's own script, once in the file and compressed: that page lets a file
fetch nothing. Figures are plotly's JSON, written without plotly's Python half, which takes a
second to import.
"""

from __future__ import annotations

import gzip
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from textwrap import wrap
from typing import Any

from twolevers.report.curves import thinned
from twolevers.report.pages import render
from twolevers.report.reported import MEMORY, Reported
from twolevers.report.table import HOW_TO_READ, about, cell_text, table_frame
from twolevers.run_times import RunTimes

MOST_POINTS = 2000
Points = Sequence[tuple[float, float]]
LOSSES: dict[str, dict[str, Any]] = {
    "train/loss": {
        "name": "training, each step",
        "line": {"width": 1},
        "opacity": 0.4,
        "meta": {"hue": 1},
    },
    "train/eval_loss": {"name": "training", "meta": {"hue": 1}},
    "val/loss": {"name": "validation", "line": {"dash": "dash"}, "meta": {"hue": 2}},
    "val/epoch_loss": {
        "name": "validation, whole split",
        "mode": "markers",
        "meta": {"hue": 2},
    },
}
"""The curves of the loss charts, and how each is drawn."""


def charts_html(run: Reported) -> str:
    """Loss over steps and over tokens, tokens/s, gradient norm, and memory where it was tracked."""
    drawn = figures(run)
    hint = (
        "Drag to zoom, double-click to zoom out, click a name to hide its curve."
        if drawn
        else "Nothing was tracked step by step."
    )
    return _page(run.summary.get("name"), hint, drawn)


def table_chart_html(table: RunTimes) -> str:
    """The run-time table as an interactive heat map; what nobody measured is empty."""
    return _page("Run-time table", f"{HOW_TO_READ} {about(table)}", [heat_map(table)])


def heat_map(table: RunTimes) -> dict[str, Any]:
    """Plotly's figure: darker is slower, by the logarithm; each cell says its runs and spread."""
    frame = table_frame(table)
    cells = [[table.cells.get((m, c)) for c in table.columns] for m in table.models]
    heat = {
        "type": "heatmap",
        "x": ["<br>".join(wrap(column, 18)) for column in frame.columns],
        "y": list(frame.index),
        "z": [[cell and math.log10(cell.seconds) for cell in row] for row in cells],
        "text": [[cell_text(table, cell).replace(" (", "<br>(") for cell in row] for row in cells],
        "texttemplate": "%{text}",
        "hovertemplate": "%{y}<br>%{x}<br><b>%{text}</b><extra></extra>",
        "hoverongaps": False,
        "colorscale": "YlGnBu",
        "reversescale": True,
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
    }
    layout = {
        "title": {"text": "Two epochs, median", "x": 0, "xref": "paper"},
        "yaxis": {"autorange": "reversed", "automargin": True, "showgrid": False},
        "xaxis": {"automargin": True, "showgrid": False, "tickangle": 0},
        "hovermode": "closest",
    }
    return {"data": [heat], "layout": layout}


def _page(name: str | None, about: str, drawn: Sequence[Mapping[str, Any]]) -> str:
    return render("charts.html", name=name, about=about, figures=drawn, script=_script())


def figures(run: Reported) -> list[dict[str, Any]]:
    """Plotly's figures, `data` and `layout`; a chart without a point is left out.

    A trace's `hue` in `meta` names the page's colour, which light and dark choose.
    """
    tokens: dict[float, float] = dict(run.curve("train/tokens"))
    losses: dict[str, Points] = {name: run.curve(name) for name in LOSSES}
    by_tokens: dict[str, Points] = {
        name: [(tokens[step], value) for step, value in curve if step in tokens]
        for name, curve in losses.items()
    }
    speed, norm = run.curve("train/tokens_per_second"), run.curve("train/grad_norm")
    memory = [_trace(label, run.curve(name)) for name, label in MEMORY.items()]
    steps = "optimizer steps"
    charts = [
        _figure("Loss by steps", steps, "nats per token", _loss_traces(losses)),
        _figure("Loss by tokens", "tokens seen", "nats per token", _loss_traces(by_tokens)),
        _figure("Speed", steps, "tokens/s", [_trace("each step", speed)]),
        _figure("Gradient norm", steps, "before clipping", [_trace("each step", norm)]),
        _figure("Memory", "seconds of the run", "MiB", memory),
    ]
    return [chart for chart in charts if chart["data"]]


def _loss_traces(curves: Mapping[str, Points]) -> list[dict[str, Any]]:
    return [_trace("", curves[name]) | style for name, style in LOSSES.items()]


def _trace(label: str, points: Points) -> dict[str, Any]:
    kept = thinned(points, MOST_POINTS)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": [x for x, _ in kept],
        "y": [round(y, 6) for _, y in kept],
        "meta": {"hue": 1},
    }


def _figure(title: str, x: str, y: str, traces: list[dict[str, Any]]) -> dict[str, Any]:
    drawn = [trace for trace in traces if trace["x"]]
    return {
        "data": drawn,
        "layout": {
            "title": {"text": title, "x": 0, "xref": "paper"},
            "xaxis": {"title": {"text": x}},
            "yaxis": {"title": {"text": y}, "rangemode": "tozero"},
            "showlegend": len(drawn) > 1,
        },
    }


@cache
def _script() -> str:
    """Plotly's script, compressed, in base64: 2.2 MB instead of 4.8. Half of the time that
    zlib's usual level takes, for a tenth more."""
    source = files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    return b64encode(gzip.compress(source, 3, mtime=0)).decode()
