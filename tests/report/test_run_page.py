"""A run's page: what a reader finds in it, and that nothing in it is anybody's code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from ended_run import ATTACK, RUN_ID, SUMMARY, Page, ended_run, unfinished_run

from twolevers.report.reported import Reported, best_and_worst, kept_files, row_numbers
from twolevers.report.run_page import run_html


@pytest.fixture
def run(tmp_path: Path) -> Reported:
    return ended_run(tmp_path / "run")


def test_figures_times_and_scores(run: Reported) -> None:
    page = Page(run_html(run))
    for figure in (
        "gpt2-nano (7M) on Intel Xeon",
        "FINISHED · cpu, 2 threads, float32 · 2 epochs of my <data>.json · run 01234567",
        "two epochs 1 min 05 s",
        "3,234 tokens/s",
        "811 MiB",
        "6.454 → 0.311",
        "6.289 → 0.393",
    ):
        assert figure in page.text
    assert page.row("train (optimizer steps)")[1:3] == ["45.0 s", "45 %"]
    assert page.row("evaluate (during training)")[1:3] == ["20.4 s", "20 %"]
    assert page.row("checkpoint (and its validation loss)")[1:3] == ["1.2 s", "1 %"]
    assert page.row("generate (both models' answers)")[1:3] == ["33.4 s", "33 %"]
    assert page.row("validation loss") == ["validation loss", "2.125", "1.500", "-0.625"]
    assert page.row("exact match") == ["exact match", "0.125", "0.750", "+0.625"]
    assert page.row("own metric") == ["own metric", "0.205", "0.830", "+0.625"]
    assert page.row("capitals") == ["capitals", "2", "0.12 → 0.75", "0.23 → 0.85"]
    assert page.text.index("opposites 3") < page.text.index("capitals 2"), "the weakest first"


def test_the_best_and_the_worst_answers(run: Reported) -> None:
    page = Page(run_html(run))
    best = page.text.partition("Best answers")[2].partition("Worst answers")[0]
    worst = page.text.partition("Worst answers")[2].partition("The data")[0]
    # Token F1 by hand: "The Oslo" is "Oslo" to it; "wide road" shares one word of two.
    assert re.findall(r"row (\d+)", best) == ["936", "940", "938"]
    assert re.findall(r"token F1 ([\d.]+)", best) == ["1.00", "1.00", "1.00"]
    assert re.findall(r"row (\d+)", worst) == ["937", "941", "939"]
    assert re.findall(r"token F1 ([\d.]+)", worst) == ["0.00", "0.00", "0.50"]
    assert "asked Question 1 & <i>more</i> of this right cold base hot tuned" in worst


def test_kinds_take_turns_among_equals() -> None:
    answers = [{"kind": kind, "token_f1": 1.0, "row": row} for row, kind in enumerate("aaabbc")]
    best, worst = best_and_worst(answers, 3)
    assert [answer["row"] for answer in best] == [0, 3, 5]
    assert [answer["row"] for answer in worst] == [1, 4, 2]
    assert best_and_worst([], 3) == ([], [])


def test_what_became_of_the_data(run: Reported) -> None:
    page = Page(run_html(run))
    assert page.row("rows read") == ["rows read", "1,100"]
    assert page.row("trained on") == ["trained on", "930"]
    assert page.row("dropped") == ["dropped", "5"]
    for line in (
        "Dropped from the train split, 3: repeats an earlier entry whole (rows 7, 19 and 400).",
        "Dropped from the test split, 2: its prompt alone fills max_length (rows 990 and 1000).",
        "Cut to max_length in the train split, 1 (row 12).",
        "2 test prompts stand in the training split with another output (row 950 as 4, 951 as 5).",
    ):
        assert line in page.text
    assert row_numbers(range(1, 31)).endswith("19, 20 and 10 more")


def test_configuration_and_how_to_have_it_again(run: Reported) -> None:
    html = run_html(run)
    page = Page(html)
    assert page.row("batch size entries") == ["batch size entries", "4"]
    assert page.row("top k tokens") == ["top k tokens", "–"]
    assert page.row("base weights, SHA-256") == ["base weights, SHA-256", "3e" * 32]
    assert page.row("commit")[1] == "ab" * 20 + " with changes to tracked files"
    changed = re.findall(r'class="changed"><th>(.*?)<', html)
    assert [name.strip() for name in changed] == ["dataset", "batch size"], "epochs is 2 by default"
    assert f"twolevers rerun {RUN_ID[:8]}" in page.text
    assert "twolevers fine-tune --model 'gpt2-nano (7M)' --device cpu" in page.text
    assert "--dataset 'my <data>.json' --batch-size 4" in page.text
    assert "--resume" not in page.text


def test_the_curves_are_drawn(run: Reported) -> None:
    html = run_html(run)
    page = Page(html)
    assert page.tags.count("polyline") == 4
    assert "validation, 0.030 at the end" in page.text  # 7 / 231
    assert "thousand tokens seen" in page.text
    drawn = [points.split() for points in re.findall(r'points="(.*?)"', html)]
    assert [len(points) for points in drawn] == [232, 47, 47, 232]
    for points in drawn:
        places = [tuple(map(float, point.split(","))) for point in points]
        assert all(0 <= x <= 440 and 0 <= y <= 270 for x, y in places)
        assert [x for x, _ in places] == sorted(x for x, _ in places)


def test_long_curves_are_thinned_and_keep_their_end(run: Reported) -> None:
    curve = [(step, 1.0) for step in range(50_001)]
    html = run_html(replace(run, curves={"train/loss": curve}))
    [points] = re.findall(r'points="(.*?)"', html)
    assert len(points.split()) <= 402
    assert points.split()[-1].startswith("428.0,")


def test_nothing_from_data_or_model_is_markup(run: Reported) -> None:
    summary = {**SUMMARY, "name": ATTACK, "tuned": {**SUMMARY["tuned"], "by_kind": {
        ATTACK: {"count": 1.0, "exact_match": 0.0, "token_f1": 0.0}}}}  # fmt: skip
    tags = {**run.tags, "twolevers.error": ATTACK, f"version.{ATTACK}": ATTACK}
    html = run_html(replace(run, summary=summary, tags=tags))
    assert "<script" not in html
    page = Page(html)
    assert page.text.count(ATTACK) >= 4, "it stands there, as text"
    assert "i" not in page.tags


def test_what_an_unfinished_run_lacks_stays_empty(tmp_path: Path) -> None:
    run = unfinished_run(tmp_path / "run")
    page = Page(run_html(run))
    assert "KILLED" in page.text
    assert f"twolevers fine-tune --resume {RUN_ID[:8]}" in page.text
    assert "two epochs –" in page.text
    assert "validation loss – → –" in page.text
    assert page.row("train (optimizer steps)")[1:3] == ["–", "–"]
    for absent in ("Scores on the test split", "Best answers", "Worst answers", "None", " nan "):
        assert absent not in page.text
    assert page.tags.count("polyline") == 4


def test_a_run_that_read_no_data_says_so() -> None:
    run = Reported({"mlflow_run_id": RUN_ID, "status": "RUNNING"})
    assert run.is_empty
    page = Page(run_html(run))
    assert "The run kept no account of its data." in page.text
    assert "svg" not in page.tags


def test_a_file_that_was_cut_off_counts_as_none(run: Reported, tmp_path: Path) -> None:
    for file in ("data/ledger.json", "inputs.json", "responses-tuned.jsonl"):
        path = tmp_path / "run" / file
        path.write_bytes(path.read_bytes()[:-40])
    page = Page(run_html(replace(run, **kept_files([tmp_path / "run"]))))
    assert "The run kept no account of its data." in page.text
    assert "Best answers" not in page.text
