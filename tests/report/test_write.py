"""What a run leaves at its end: pages and picture in its folder, and with the tracker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from ended_run import CURVES, LEDGER, RUN_ID, STEPS, SUMMARY, Page, ended_run

from twolevers.data.fetch import fetch_dataset
from twolevers.data.tokenise import LEDGER_FILE, tokenise
from twolevers.files import sha256_of
from twolevers.options import DataOptions, FineTuneOptions
from twolevers.progress import Silent
from twolevers.records import (
    FineTuneRun,
    Responses,
    RunSummary,
    Scores,
    TokenisedData,
    TrainingResult,
)
from twolevers.report.write import read_answers, write_report
from twolevers.settings import Home
from twolevers.tracking.protocol import NullTracker


class Recording(NullTracker):
    """Holds curves, remembers files and metrics."""

    def __init__(self) -> None:
        super().__init__(RUN_ID)
        self.files: dict[str, bytes] = {}
        self.metrics: dict[str, float] = {}

    def read_metrics(self, metrics: Iterable[str]) -> dict[str, list[tuple[int, float]]]:
        return {name: CURVES.get(name, []) for name in metrics}

    def log_file(self, path: Path, folder: str = "") -> None:
        self.files[path.name] = path.read_bytes()

    def log_metrics(self, metrics: Mapping[str, float], *, step: int, tokens: int = 0) -> None:
        self.metrics |= metrics


def rows_of_a_run(folder: Path, home: Home) -> None:
    """Tokens as a run keeps them, beside the ledger that is there."""
    file = home.root / "rows.json"
    file.parent.mkdir(parents=True)
    rows = [{"instruction": f"Say <{i}>.", "output": f"{i} & more"} for i in range(20)]
    file.write_text(json.dumps(rows), encoding="utf-8")
    fetched = fetch_dataset(str(file), home, Silent())
    data = tokenise(fetched, DataOptions(), seed=1, home=home, progress=Silent())
    for part in data.path.iterdir():
        if part.name != LEDGER_FILE:
            shutil.copy(part, folder)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Recording, RunSummary]:
    """A run's folder after `write_report`, what was tracked, the summary."""
    folder, tracker = tmp_path / "run", Recording()
    ended_run(folder)
    rows_of_a_run(folder / "data", Home(tmp_path / "home"))
    levers = {"model": SUMMARY["model"], "device": "cpu", "precision": "float32"}
    run = FineTuneRun(
        run_id=RUN_ID,
        flow_run_id=None,
        resumed=False,
        folder=folder,
        options=FineTuneOptions(**levers, training={"learning_rate": 1e-3, "seed": 7}),
        hardware=SUMMARY["hardware"],
        threads=2,
    )
    counts = {"num_train": 930, "num_val": 55, "num_test": 110, "num_dropped": 5, "num_cut": 1}
    data = TokenisedData(
        path=folder / "data",
        sha256="0" * 64,
        data_sha256="1" * 64,
        dataset=LEDGER["dataset"],
        num_rows=1100,
        train_tokens=50_000,
        longest=90,
        **counts,
    )
    losses = {name: SUMMARY[name] for name in SUMMARY if name.endswith(("_before", "_after"))}
    training = TrainingResult(
        checkpoint=folder / "checkpoints" / "epoch-2",
        best_checkpoint=folder / "checkpoints" / "epoch-2",
        sha256="2" * 64,
        steps=STEPS,
        epochs=2,
        best_val_loss=0.4,
        train_seconds=65.4,
        step_seconds=45.0,
        eval_seconds=20.4,
        checkpoint_seconds=1.2,
        two_epoch_seconds=65.4,
        tokens=104_400,
        tokens_per_second=2320.0,
        peak_memory_bytes=811 * 2**20,
        resumed=False,
        **losses,
    )
    responses = [
        Responses(
            role=role,
            path=(path := folder / f"responses-{role}.jsonl"),
            sha256=sha256_of(path),
            num_responses=6,
            new_tokens=60,
            seconds=seconds,
        )
        for role, seconds in (("base", 20.25), ("tuned", 13.15))
    ]
    scores = [
        Scores.model_validate(SUMMARY[role] | {"seconds": seconds})
        for role, seconds in (("base", 1.5), ("tuned", 2.0))
    ]
    return folder, tracker, write_report(run, data, training, responses, scores, tracker)


def test_the_page_lies_in_the_folder_and_with_the_tracker(
    written: tuple[Path, Recording, RunSummary],
) -> None:
    folder, tracker, summary = written
    html = (folder / "report.html").read_bytes()
    assert tracker.files["report.html"] == html
    assert {"charts.html", "loss-curve.png", "responses-tuned.jsonl"} < {*tracker.files}
    assert not (folder / "charts.html").exists(), "two megabytes that MLflow alone shows"
    page = Page(html.decode())
    assert summary.name in page.text
    assert page.row("generate (both models' answers)")[1] == "33.4 s"
    assert page.row("train (optimizer steps)")[1] == "45.0 s"
    assert page.row("exact match") == ["exact match", "0.125", "0.750", "+0.625"]
    assert page.row("seed") == ["seed", "7"]
    assert page.row("dropped") == ["dropped", "5"]
    assert "torch 2" in page.row("versions")[1]
    assert page.tags.count("polyline") == 4


def test_what_it_was_trained_on_is_a_page_too(written: tuple[Path, Recording, RunSummary]) -> None:
    folder, tracker, _ = written
    html = (folder / "data.html").read_bytes()
    assert tracker.files["data.html"] == html
    page = Page(html.decode())
    assert "my <data>.json" in page.text
    assert "Dropped from the train split, 3" in page.text
    assert "Say < 16 >." in page.text, "a token at a time"
    assert html.decode().count('<span class="end" title') == 10


def test_the_time_of_each_part_is_tracked(written: tuple[Path, Recording, RunSummary]) -> None:
    times = {name: value for name, value in written[1].metrics.items() if "time/" in name}
    assert times == pytest.approx(
        {
            "time/steps": 45.0,
            "time/evaluation": 20.4,
            "time/checkpoints": 1.2,
            "time/generation": 33.4,
            "time/scoring": 3.5,
        }
    )


def test_answers_hold_any_character(written: tuple[Path, Recording, RunSummary]) -> None:
    """JSON leaves a line separator of Unicode in a line as it is."""
    answers = read_answers(written[0], 6)
    assert [answer["row"] for answer in answers][:3] == [936, 937, 941], "kinds first"
    assert "wide \u2028 road" in {answer["tuned"] for answer in answers}
    assert read_answers(written[0].parent, 6) == []
