"""The interactive charts: plotly accepts them, and the file fetches nothing."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go
import pytest
from ended_run import ATTACK, CURVES, SUMMARY, ended_run

from twolevers.report.charts import charts_html, figures
from twolevers.report.reported import Reported


@pytest.fixture
def run(tmp_path: Path) -> Reported:
    return ended_run(tmp_path / "run")


def test_plotly_accepts_every_chart(run: Reported) -> None:
    drawn = {figure["layout"]["title"]["text"]: go.Figure(figure) for figure in figures(run)}
    assert [*drawn] == ["Loss by steps", "Loss by tokens", "Speed", "Gradient norm"]
    by_steps, by_tokens = drawn["Loss by steps"].data, drawn["Loss by tokens"].data
    assert [trace.name for trace in by_steps] == [
        "training, each step",
        "training",
        "validation",
        "validation, whole split",
    ]
    assert by_steps[2].x == tuple(range(0, 232, 5))
    assert by_steps[3].y == (0.5, 0.4)
    # Step 5 is the sixth update, of 450 tokens each.
    assert by_tokens[2].x[1] == 2700
    assert by_tokens[3].x == (116 * 450, 232 * 450)


def test_memory_is_a_chart_where_it_was_tracked(run: Reported) -> None:
    memory = {"system/memory_mebibytes": [(0, 900.0), (1, 950.0)]}
    [*_, last] = figures(replace(run, curves=CURVES | memory))
    assert last["layout"]["title"]["text"] == "Memory"
    assert last["data"][0]["y"] == [900.0, 950.0]


def test_long_curves_are_thinned(run: Reported) -> None:
    curve = [(step, 1.0) for step in range(50_001)]
    [figure] = figures(replace(run, curves={"train/grad_norm": curve}))
    assert len(figure["data"][0]["x"]) <= 2001
    assert figure["data"][0]["x"][-1] == 50_000


def test_the_file_is_whole_small_and_safe(run: Reported) -> None:
    html = charts_html(replace(run, summary={**SUMMARY, "name": ATTACK}))
    assert len(html) < 3_000_000
    assert ATTACK not in html
    assert not re.search(r'(?:src|href)="(?!data:)', html)
    [script] = re.findall(r'id="plotly">(.*?)</script>', html)
    assert b"plotly.js v" in gzip.decompress(b64decode(script))[:200]
    [stored] = re.findall(r'id="figures">(.*?)</script>', html)
    assert json.loads(stored) == json.loads(json.dumps(figures(run)))


def test_a_run_without_steps_has_none(run: Reported) -> None:
    assert "Nothing was tracked step by step." in charts_html(replace(run, curves={}))
