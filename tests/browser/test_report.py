"""The pages in a real browser: on a phone and a desk, light, dark and printed, fetching nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from ended_run import SUMMARY, ended_run, unfinished_run
from playwright.sync_api import Browser

from twolevers.compare import differences, find_timed
from twolevers.report.charts import charts_html, figures, table_chart_html
from twolevers.report.comparison_page import comparison_html
from twolevers.report.pages import table_html, write_page
from twolevers.report.reported import Reported, kept_files
from twolevers.report.run_page import run_html
from twolevers.run_times import run_times
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.timings import COLUMNS

WIDTHS = (1100, 390)
SLOW = 120_000
"""Milliseconds that a loaded machine may take."""
CONTRAST = """selector => {
  const rgb = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const weigh = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
  const light = (colour) => weigh(rgb(colour));
  const ink = getComputedStyle(document.querySelector(selector)).color;
  const paper = getComputedStyle(document.body).backgroundColor;
  const [high, low] = [light(ink), light(paper)].sort((a, b) => b - a);
  return { ratio: (high + 0.05) / (low + 0.05), dark: light(paper) < 0.2 };
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages by name, of runs whose texts have no place to break."""
    folder = tmp_path_factory.mktemp("pages")
    run = ended_run(folder / "run")
    for role in ("base", "tuned"):
        answers = folder / "run" / f"responses-{role}.jsonl"
        text = answers.read_text(encoding="utf-8")
        answers.write_text(text.replace("no idea", "x" * 900), encoding="utf-8", newline="\n")
    endless = {"dataset": "/a" * 120 + ".json", "checkpoint": "/b" * 150}
    run = replace(
        run,
        summary=SUMMARY | endless,
        params={**run.params, "dataset": endless["dataset"]},
        **kept_files([folder / "run"]),
    )
    html = {
        "run": run_html(run),
        "unfinished": run_html(unfinished_run(folder / "unfinished")),
        **_of_several(run),
    }
    return {name: write_page(folder / f"{name}.html", text) for name, text in html.items()}


def _of_several(run: Reported) -> dict[str, str]:
    """A comparison of four runs, and the run-time table of them."""
    row = dict.fromkeys(COLUMNS) | {"core_version": "0.1.0", "fingerprint": "a" * 12}
    row |= {"device": "cpu", "hardware": "Intel(R) Xeon(R) Processor @ 2.80GHz", "workload": {}}
    places = [(threads, kind) for threads in (2, 64) for kind in ("float32", "bfloat16")]
    runs = [
        replace(run, summary=SUMMARY | {"mlflow_run_id": f"{number}" * 32})
        for number in range(len(places))
    ]
    timings = pd.DataFrame(
        [
            row
            | {"run_id": one.run_id, "model": "gpt2-medium (355M)", "threads": threads}
            | {"precision": kind, "two_epoch_seconds": 100.0 * threads}
            for one, (threads, kind) in zip(runs, places, strict=True)
        ]
    )
    timed = find_timed(timings, [RunInfo(one.run_id, params=dict(run.params)) for one in runs])
    return {
        "comparison": comparison_html(timed, differences(timed), runs),
        "table": table_html(run_times(timings, "a" * 12)),
        "chart": table_chart_html(run_times(timings, "a" * 12)),
    }


class Opened:
    """A page that was opened; remembers what it asked for and what went wrong."""

    def __init__(self, browser: Browser, path: Path, width: int, scheme: str) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.set_default_timeout(SLOW)
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda said: self.faults.append(said.text))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()

    @property
    def fetched(self) -> list[str]:
        """Requests besides the page itself and what it carries."""
        return [url for url in self.requests[1:] if not url.startswith(("data:", "blob:"))]

    @property
    def overhang(self) -> int:
        """Pixels by which the page is wider than the window."""
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(wide))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["run", "unfinished", "comparison", "table", "chart"])
def test_a_page_fits_its_window_and_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    with Opened(browser, pages[name], width, scheme) as opened:
        assert opened.overhang == 0
        for selector in ("h1", ".faint"):
            seen = opened.page.evaluate(CONTRAST, selector)
            assert seen["dark"] == (scheme == "dark")
            assert seen["ratio"] >= 4.5, selector
        assert opened.fetched == []
        assert opened.faults == []


def test_a_page_is_printed_on_white(browser: Browser, pages: dict[str, Path]) -> None:
    with Opened(browser, pages["run"], 700, "dark") as opened:
        opened.page.emulate_media(media="print", color_scheme="dark")
        assert not opened.page.evaluate(CONTRAST, "h1")["dark"]
        assert opened.overhang == 0
        assert opened.page.pdf(format="A4").startswith(b"%PDF")


def test_both_colour_schemes_draw_the_curves(browser: Browser, pages: dict[str, Path]) -> None:
    strokes = []
    for scheme in ("light", "dark"):
        with Opened(browser, pages["run"], 390, scheme) as opened:
            curves = opened.page.locator("polyline")
            assert curves.count() == 4
            box = curves.nth(0).bounding_box()
            assert box["width"] > 250
            strokes.append(curves.nth(0).evaluate("line => getComputedStyle(line).stroke"))
    assert strokes[0] != strokes[1]


def test_the_charts_are_drawn_in_a_frame_that_may_fetch_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    """As MLflow's page of artifacts shows them."""
    run = ended_run(tmp_path / "run")
    write_page(tmp_path / "charts.html", charts_html(run))
    frame = '<iframe sandbox="allow-scripts" src="charts.html" width="900" height="700"></iframe>'
    shown = write_page(tmp_path / "mlflow.html", f"<!doctype html><body>{frame}</body>")
    with Opened(browser, shown, 1100, "light") as opened:
        inside = opened.page.frame_locator("iframe")
        titles = inside.locator(".gtitle")
        titles.nth(len(figures(run)) - 1).wait_for()
        assert titles.all_text_contents() == [
            "Loss by steps",
            "Loss by tokens",
            "Speed",
            "Gradient norm",
        ]
        assert inside.locator(".plots > div").nth(0).locator("g.trace.scatter").count() == 4
        assert "training, each step" in inside.locator(".legend").nth(0).text_content()
        assert [Path(url).name for url in opened.fetched] == ["charts.html"]
        assert opened.faults == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_is_drawn_as_a_heat_map(
    browser: Browser, pages: dict[str, Path], width: int
) -> None:
    with Opened(browser, pages["chart"], width, "dark") as opened:
        opened.page.locator(".heatmaplayer image").wait_for()
        texts = opened.page.locator(".plots text").all_text_contents()
        assert sum("fastest" in text for text in texts) == 1, texts
        assert opened.overhang == 0
        assert opened.faults == []
