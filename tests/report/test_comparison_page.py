"""The page of a comparison, from runs made by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from ended_run import ATTACK, CURVES, METRICS, PARAMS, RUN_ID, SUMMARY, TAGS, Page, ended_run

from twolevers.compare import differences, find_timed
from twolevers.report.comparison_page import comparison_html
from twolevers.report.reported import Reported
from twolevers.tracking import names
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.timings import COLUMNS

OTHER_ID = "f" * 32
SMALL = "gpt2-small (124M)"


def comparison(runs: Sequence[Reported], **second: object) -> str:
    """The page of `runs`; the first is nano on a CPU in 65.4 s, the others as `second` says."""
    row = dict.fromkeys(COLUMNS) | {
        "run_id": RUN_ID,
        "model": PARAMS["model"],
        "device": "cpu",
        "hardware": "Intel Xeon",
        "threads": 2,
        "precision": "float32",
        "two_epoch_seconds": 65.4,
        "core_version": "0.1.0",
        "fingerprint": "aaaa",
        "workload": {},
    }
    timings = pd.DataFrame([row, *(row | {"run_id": run.run_id} | second for run in runs[1:])])
    found = [RunInfo(run.run_id, params=dict(run.params)) for run in runs]
    timed = find_timed(timings, found)
    return comparison_html(timed, differences(timed), runs)


def two_runs(folder: Path) -> list[Reported]:
    """The one made by hand, and a gpt2-small that did better in three times the time."""
    tuned = {**SUMMARY["tuned"], "exact_match": 0.875, "own": ATTACK}
    other = replace(
        ended_run(folder / "run"),
        summary={**SUMMARY, "mlflow_run_id": OTHER_ID, "model": SMALL, "tuned": tuned},
        params=PARAMS | {"model": SMALL, "seed": ATTACK},
        tags=TAGS | {"version.torch": "2.14.0"},
        metrics=METRICS | {"time/steps": 165.0},
    )
    return [replace(other, summary=SUMMARY, params=PARAMS, tags=TAGS, metrics=METRICS), other]


def test_the_runs_stand_side_by_side(tmp_path: Path) -> None:
    html = comparison(two_runs(tmp_path), model=SMALL, two_epoch_seconds=196.2)
    page = Page(html)
    assert "The model, on Intel Xeon, 2 threads, float32: gpt2-small (124M) takes 3.00 times" in (
        page.text
    )
    assert page.row("exact match") == ["exact match", "0.750", "0.875"]
    assert page.row("train (optimizer steps)")[1:] == ["45.0 s", "2 min 45 s"]
    assert page.row("torch") == ["torch", "2.13.0", "2.14.0"]
    assert page.row("model") == ["model", PARAMS["model"], SMALL]
    assert "batch size" not in page.text, "it is the same"
    assert re.findall(r'class="bar" style="width: ([\d.]+)%', html) == ["33.3", "100.0"]
    assert page.tags.count("polyline") == 4, "validation loss and speed of two runs"
    for run_id in (RUN_ID, OTHER_ID):
        assert f"twolevers rerun {run_id[:8]}" in page.text


def test_classifications_are_compared_by_their_own_scores(tmp_path: Path) -> None:
    runs = [
        replace(
            run,
            tags={**run.tags, names.KIND: names.CLASSIFY},
            params={**run.params, "train": train},
            metrics={"final/test_accuracy": accuracy, "final/val_accuracy": 0.125},
        )
        for run, train, accuracy in zip(
            two_runs(tmp_path), ("head", "lora"), (0.75, 0.875), strict=True
        )
    ]
    html = comparison(runs, model=SMALL, two_epoch_seconds=196.2)
    text = " ".join(Page(html).text.split())
    assert "Scores of the test split" in text
    assert "accuracy 0.750 0.875" in text
    assert "train head lora" in text
    assert "exact match" not in text
    assert "wo epochs" not in text
    assert "twolevers rerun" not in text
    assert "--train lora" in text


def test_nothing_from_runs_is_markup(tmp_path: Path) -> None:
    html = comparison(two_runs(tmp_path), model=ATTACK)
    assert "<script" not in html
    assert ATTACK in Page(html).text


def test_both_levers_turned_names_the_run_that_would_part_them(tmp_path: Path) -> None:
    gpu = {"device": "cuda:0", "hardware": "L4", "two_epoch_seconds": 40.0}
    text = Page(comparison(two_runs(tmp_path), model=SMALL, **gpu)).text
    assert "Not attributable: model and device both differ" in text
    assert "twolevers fine-tune --model 'gpt2-small (124M)' --device cpu" in text


def test_more_runs_than_colours_and_one_without_curves(tmp_path: Path) -> None:
    first, other = two_runs(tmp_path)
    many = [
        replace(other, summary={**other.summary, "mlflow_run_id": f"{number}" * 32}, curves=curves)
        for number, curves in enumerate([CURVES] * 6 + [{}])
    ]
    page = Page(comparison([first, *many[1:]], model=SMALL))
    assert page.tags.count("polyline") == 2 * 6
