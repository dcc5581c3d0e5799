"""A run's page written again from its folder, from MLflow's artifacts, or from figures alone."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from ended_run import CURVES, METRICS, PARAMS, SUMMARY, Page, ended_run

from twolevers.errors import InputError
from twolevers.report.again import report_again, reported_run
from twolevers.report.run_page import run_html
from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.queries import find_run
from twolevers.tracking.store import Store


@pytest.fixture
def finished(home: Home, settings: Settings, store: Store, tmp_path: Path) -> str:
    """Id of a run that ended, with its files in its folder and in MLflow."""
    with open_run(home=home, settings=settings, name="a run", params=PARAMS) as tracker:
        ended_run(tracker.folder)
        for name, curve in CURVES.items():
            for step, value in curve:
                tracker.log_metrics({name: value}, step=step)
        tracker.log_metrics(METRICS, step=232)
        tracker.log_summary(SUMMARY | {"mlflow_run_id": tracker.run_id}, step=232)
        files = ("inputs.json", "responses-base.jsonl", "responses-tuned.jsonl", "data/ledger.json")
        for file in files:
            tracker.log_file(tracker.folder / file)
    return tracker.run_id


def check(page: Page) -> None:
    assert "FINISHED" in page.text
    assert page.row("train (optimizer steps)")[1] == "45.0 s"
    assert page.row("batch size entries") == ["batch size entries", "4"]
    assert page.row("exact match") == ["exact match", "0.125", "0.750", "+0.625"]
    assert page.row("dropped") == ["dropped", "5"]
    assert "Best answers" in page.text
    assert page.tags.count("polyline") == 4


def test_from_its_folder(home: Home, settings: Settings, finished: str) -> None:
    written = report_again("latest", None, home, settings)
    assert written == home.run_folder(finished) / "report.html"
    check(Page(written.read_text(encoding="utf-8")))


def test_from_mlflow_where_the_folder_is_gone(
    home: Home,
    settings: Settings,
    finished: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.rmtree(home.run_folder(finished))
    monkeypatch.chdir(tmp_path)
    written = report_again(finished[:8], None, home, settings)
    assert written == Path(f"report-{finished[:8]}.html")
    check(Page(written.read_text(encoding="utf-8")))
    assert not home.run_folder(finished).exists()


def test_from_where_a_server_keeps_the_files(home: Home, settings: Settings, finished: str) -> None:
    """Neither the folder nor the artifacts are on this disk; the client fetches them."""
    found = replace(find_run(finished, home, settings), folder=None, artifacts=None)
    summary = SUMMARY | {"mlflow_run_id": finished}
    reported = replace(reported_run(found, home, settings), summary=summary)
    check(Page(run_html(reported)))
    with suppress(KeyboardInterrupt), open_run(home=home, settings=settings, name="b") as tracker:
        raise KeyboardInterrupt
    found = replace(find_run(tracker.run_id, home, settings), folder=None, artifacts=None)
    assert reported_run(found, home, settings).is_empty


def test_from_figures_alone_into_a_named_file(
    home: Home, settings: Settings, store: Store, tmp_path: Path
) -> None:
    """As of a run that was killed on another machine."""

    def killed() -> str:
        with (
            suppress(KeyboardInterrupt),
            open_run(home=home, settings=settings, name="b", params=PARAMS) as tracker,
        ):
            for step, value in CURVES["train/loss"]:
                tracker.log_metrics({"train/loss": value}, step=step, tokens=450 * (step + 1))
            raise KeyboardInterrupt
        return tracker.run_id

    target = tmp_path / "pages" / "killed.html"
    assert report_again(killed(), target, home, settings) == target
    page = Page(target.read_text(encoding="utf-8"))
    assert "KILLED" in page.text
    assert "thousand tokens seen" in page.text
    assert page.tags.count("polyline") == 1
    assert page.row("train (optimizer steps)")[1] == "–"


def test_what_a_resume_changed_is_what_the_page_says(
    home: Home, settings: Settings, finished: str
) -> None:
    with open_run(
        home=home, settings=settings, name="a run", params={"epochs": 3}, resume=finished
    ):
        pass
    written = report_again(finished, None, home, settings)
    assert Page(written.read_text(encoding="utf-8")).row("epochs") == ["epochs", "3"]


def test_a_run_with_nothing_to_show_is_one_clear_error(
    home: Home, settings: Settings, store: Store, tmp_path: Path
) -> None:
    with (
        pytest.raises(ValueError),
        open_run(home=home, settings=settings, name="b", params=PARAMS) as tracker,
    ):
        raise ValueError("no data")
    with pytest.raises(InputError, match="nothing to show: it is FAILED") as refused:
        report_again("latest", tmp_path / "page.html", home, settings)
    assert tracker.run_id in str(refused.value)
    assert not (tmp_path / "page.html").exists()


def test_a_place_that_takes_no_file_is_named(
    home: Home, settings: Settings, finished: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        report_again(finished, tmp_path, home, settings)


def test_a_checkpoint_of_no_run_is_refused(
    home: Home, settings: Settings, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="is a checkpoint of no run"):
        report_again(str(tmp_path), None, home, settings)
