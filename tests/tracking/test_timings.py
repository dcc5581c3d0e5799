"""From tracked runs to the run-time table, and the command that shows it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from twolevers.errors import InputError
from twolevers.run_times import Column
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store
from twolevers.tracking.timings import list_timings, train_seconds

WORKLOADS = {"aaaa": {"task": "instructions", "epochs": 2, "batch_size": 8}}
WORKLOADS["bbbb"] = WORKLOADS["aaaa"] | {"batch_size": 4}


def track(
    home: Home, settings: Settings, model: str, seconds: float | None, workload: str = "aaaa"
) -> str:
    """Id of a finished run that took `seconds`, or has no two-epoch time."""
    with open_run(
        home=home,
        settings=settings,
        name=model,
        params={"model": model, "device": "cpu", "precision": "float32"},
        tags={
            "twolevers.device": "cpu",
            names.HARDWARE: "Abacus",
            names.THREADS: "2",
            names.FINGERPRINT: workload,
            names.WORKLOAD: json.dumps(WORKLOADS[workload]),
        },
    ) as tracker:
        if seconds:
            figures = {"two_epoch_seconds": seconds, "train_seconds": seconds}
            tracker.log_metrics(figures, step=1)
        return tracker.run_id


@pytest.fixture
def tracked(home: Home, settings: Settings, store: Store) -> list[str]:
    """Ids of four timed runs; one more has no time, and one failed."""
    track(home, settings, "gpt2-small (124M)", None)
    with pytest.raises(ZeroDivisionError), open_run(home=home, settings=settings, name="failed"):
        raise ZeroDivisionError
    asked = (
        ("gpt2-nano (7M)", 50.0, "bbbb"),
        ("gpt2-nano (7M)", 60.0, "aaaa"),
        ("gpt2-nano (7M)", 64.0, "aaaa"),
        ("gpt2-small (124M)", 620.0, "aaaa"),
    )
    return [track(home, settings, *one) for one in asked]


def run(*arguments: str) -> str:
    ended = CliRunner().invoke(app, ["table", *arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_timed_runs_have_a_row(home: Home, settings: Settings, tracked: list[str]) -> None:
    table = list_timings(home, settings)
    assert set(table["run_id"]) == {*tracked}
    row = table.set_index("run_id").loc[tracked[2]]
    assert row["two_epoch_seconds"] == 64.0
    assert (row["hardware"], row["threads"], row["precision"]) == ("Abacus", 2, "float32")
    assert row["workload"] == WORKLOADS["aaaa"]
    assert row["core_version"]


def test_earlier_runs_are_of_one_cell(home: Home, settings: Settings, tracked: list[str]) -> None:
    def seconds(model: str, threads: int = 2, fingerprint: str = "aaaa") -> list[float]:
        column = Column.of("cpu", "Abacus", threads, "float32")
        return train_seconds(home, settings, model=model, column=column, fingerprint=fingerprint)

    assert seconds("gpt2-nano (7M)") == [64.0, 60.0]
    assert seconds("gpt2-nano (7M)", fingerprint="bbbb") == [50.0]
    assert seconds("gpt2-nano (7M)", threads=4) == []
    assert seconds("gpt2-large (774M)") == []


def test_the_command_shows_the_newest_workload(home: Home, tracked: list[str]) -> None:
    shown = " ".join(run("--published").split())
    assert "1 min 02 s fastest" in shown
    assert "2 runs, 60.0 to 64.0 s" in shown
    assert "10 min 20 s slowest" in shown
    assert "smaller model is faster: holds (in 1 pair)" in shown
    assert "GPU beats the CPU: not measured" in shown
    assert "bbbb, 1 run: batch_size: 4, not 8" in shown
    assert "published, not measured here" in shown
    assert "15.78" in shown


def test_the_command_writes_every_format(home: Home, tracked: list[str], tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("--format", "csv"))))
    assert [(row["model"], float(row["median_seconds"]), row["runs"]) for row in rows] == [
        ("gpt2-nano (7M)", 62.0, "2"),
        ("gpt2-small (124M)", 620.0, "1"),
    ]
    assert "| gpt2-nano (7M) | 50.0 s (1 run) |" in run("--format", "markdown", "--workload", "bb")
    page, picture = tmp_path / "table.html", tmp_path / "table.png"
    run("--format", "html", "--output", str(page), "--published")
    text = page.read_text(encoding="utf-8")
    assert "Abacus, 2 threads, float32" in text
    assert "15.78" in text
    assert "http" not in text, "the page is whole in itself"
    run("--format", "png", "--output", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--format", "pdf"], "choose one of terminal, markdown, csv, html, png"),
        (["--model", "nano"], "add --measure"),
        (["--measure", "--precision", "fp32"], "choose one of auto, float32"),
        (["--measure", "--weights", "/w"], "names no model"),
    ],
)
def test_what_means_nothing_is_refused(home: Home, arguments: list[str], told: str) -> None:
    with pytest.raises(InputError) as refused:
        CliRunner().invoke(app, ["table", *arguments], catch_exceptions=False)
    assert told in str(refused.value)


def test_what_cannot_be_shown_is_said(tracked: list[str]) -> None:
    for arguments, told in (
        (["--workload", "cc"], "no run has this workload; choose one of aaaa, bbbb"),
        (["--format", "csv", "--output", "/dev/null/table.csv"], "cannot be written"),
    ):
        with pytest.raises(InputError, match=told):
            CliRunner().invoke(app, ["table", *arguments], catch_exceptions=False)


def test_nothing_timed_says_how_to_begin(home: Home, store: Store) -> None:
    with pytest.raises(InputError, match="twolevers table --measure"):
        CliRunner().invoke(app, ["table"], catch_exceptions=False)
