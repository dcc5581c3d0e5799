"""`twolevers runs` and `show` over runs of every kind, made by hand, and the commands that are
given a run of another kind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ended_run import scores
from typer.testing import CliRunner

from flows.cli import app
from flows.terminal import console
from twolevers.classification.model import CLASSIFIER_FILE
from twolevers.errors import InputError
from twolevers.files import write_json
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.run_tracker import MlflowTracker
from twolevers.tracking.store import open_store

PARAMS = {"model": "gpt2-medium (355M)", "precision": "float32", "dataset": "embedded"}


@dataclass
class Runs:
    home: Home
    ids: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.ids[name]


@pytest.fixture(scope="module")
def made(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """One run of each kind that finished, and what else an id may lead to; the last still runs."""
    home = Home(tmp_path_factory.mktemp("home"))
    shutil.copytree(prepared / "mlflow", home.mlflow)
    runs = Runs(home, {})

    def opened(name: str, kind: str = names.FINE_TUNE, **tags: str) -> Any:
        told = {"twolevers.device": "cuda:0", **{key.replace("_", "."): tags[key] for key in tags}}
        return open_run(
            home=home, settings=Settings(), name=name, params=PARAMS, tags=told, kind=kind
        )

    def note(tracker: MlflowTracker, name: str, metrics: dict[str, float]) -> None:
        runs.ids[name] = tracker.run_id
        tracker.folder.mkdir(parents=True, exist_ok=True)
        tracker.log_metrics(metrics, step=1)

    with opened("elsewhere", twolevers_host="host-b") as tracker:
        note(tracker, "elsewhere", {})
    with opened("deleted") as tracker:
        note(tracker, "deleted", {})
    open_store(home, Settings()).client.delete_run(runs["deleted"])
    with opened("fine-tuned") as tracker:
        figures = {"two_epoch_seconds": 845.0, "base/val_loss": 9.0, "tuned/val_loss": 0.393}
        exact = {"base/exact_match": 0.0, "tuned/exact_match": 0.745}
        note(tracker, "fine-tuned", figures | exact)
    with suppress(KeyboardInterrupt), opened("killed") as tracker:
        note(tracker, "killed", {"base/val_loss": 8.765, "base/exact_match": 0.111})
        raise KeyboardInterrupt
    with opened("classified", names.CLASSIFY) as tracker:
        note(tracker, "classified", {"final/test_accuracy": 0.967, "final/val_accuracy": 0.5})
    with suppress(ValueError), opened("classify failed", names.CLASSIFY) as tracker:
        note(tracker, "classify failed", {})
        raise ValueError("no such column")
    for role, of in (("tuned", runs["fine-tuned"]), ("base", "")):
        with opened(f"evaluated {role}", names.EVALUATION) as tracker:
            found = scores(role, 0.25 if role == "tuned" else 0.125)
            found["val_loss"] = 2.0 if role == "tuned" else 10.8126
            both = {f"{role}/{name}": found[name] for name in ("val_loss", "exact_match")}
            note(tracker, f"evaluated {role}", both)
            if of:
                tracker.set_tags({names.EVALUATION_OF: of})
            else:
                tracker.log_metrics({"judge/llama3-0a/base_mean": 61.5}, step=0)
                judge = {"model": "llama3", "name": "llama3-0a"}
                tracker.set_tags({f"twolevers.judge.{key}": judge[key] for key in judge})
            evaluation = {
                "mlflow_run_id": tracker.run_id, "what": of[:8] or "gpt2-medium",
                "model": PARAMS["model"], "device": "cuda:0", "hardware": "a GPU",
                "precision": "float32", "dataset": "embedded", "scores": found, "judge": None,
            }  # fmt: skip
            write_json(tracker.folder / names.EVALUATION_FILE, evaluation)
            tracker.log_file(tracker.folder / names.EVALUATION_FILE)
    with opened("running") as tracker:
        note(tracker, "running", {})
        yield runs


@pytest.fixture(autouse=True)
def at_home(made: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOLEVERS_HOME", str(made.home.root))
    monkeypatch.setattr(console, "width", 80)


def run(*arguments: str) -> str:
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output or ran.exception
    return ran.output


def test_every_kind_is_listed_newest_first(made: Runs) -> None:
    rows = json.loads(run("runs", "--json"))
    newest = ["running", "evaluated base", "evaluated tuned", "classify failed", "classified"]
    newest += ["killed", "fine-tuned", "elsewhere"]
    assert [row["run_id"] for row in rows] == [made[name] for name in newest]
    by_id = {row["run_id"]: row for row in rows}
    of = by_id[made["evaluated tuned"]]
    assert (of["kind"], of["evaluation_of"]) == ("evaluation", made["fine-tuned"])
    assert (of["exact_match_tuned"], of["exact_match_base"]) == (0.25, None)
    classified = by_id[made["classified"]]
    assert (classified["kind"], classified["test_accuracy"]) == ("classify", 0.967)
    assert classified["exact_match_tuned"] is None
    assert [row["run_id"] for row in json.loads(run("runs", "--json", "--limit", "3"))] == [
        made[name] for name in newest[:3]
    ]


def test_figures_stand_in_their_own_columns(made: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 200)
    header, *lines = run("runs").splitlines()
    assert header.split()[-7:] == ["2", "epochs", "val", "loss", "match", "test", "acc."]
    last = {line.split()[0]: line.split("cuda:0")[1].split()[3:] for line in lines}
    assert last == {
        made["running"][:8]: ["–", "–", "–", "–"],
        made["evaluated base"][:8]: ["–", "10.81", "0.125", "–"],
        made["evaluated tuned"][:8]: ["–", "2.000", "0.250", "–"],
        made["classify failed"][:8]: ["–", "–", "–", "–"],
        made["classified"][:8]: ["–", "–", "–", "0.967"],
        # Killed before the tuned model was scored: the base model's scores are not its own.
        made["killed"][:8]: ["–", "–", "–", "–"],
        made["fine-tuned"][:8]: ["14", "min", "05", "s", "0.393", "0.745", "–"],
        made["elsewhere"][:8]: ["–", "–", "–", "–"],
    }


def test_80_columns_cut_nothing(made: Runs) -> None:
    out = run("runs")
    assert max(len(line) for line in out.splitlines()) <= 80
    words = set(out.split())
    assert {made[name][:8] for name in made.ids if name != "deleted"} <= words
    whole = {"fine-tune", "classify", "evaluation", "gpt2-medium", "cuda:0", "FINISHED", "RUNNING"}
    assert whole | {"0.967", "0.745", "0.393", "10.81", "match", "UTC", "epochs"} <= words


def test_one_kind_alone(made: Runs) -> None:
    for kind, columns in (
        ("fine-tune", ["start,", "UTC", "2", "epochs", "val", "loss", "match"]),
        ("classify", ["start,", "UTC", "test", "acc."]),
        ("evaluation", ["start,", "UTC", "val", "loss", "match"]),
    ):
        header, *lines = run("runs", "--kind", kind).splitlines()
        assert "kind" not in header.split()
        assert header.split()[-len(columns) :] == columns
    assert [line.split()[:3] for line in lines] == [
        [made["evaluated base"][:8], "gpt2-medium", "base"],
        [made["evaluated tuned"][:8], "gpt2-medium", made["fine-tuned"][:8]],
    ]
    refused = CliRunner().invoke(app, ["runs", "--kind", "evaluate"]).exception
    assert isinstance(refused, InputError)
    assert str(refused) == (
        "--kind 'evaluate': no such kind of run (did you mean 'evaluation'?); "
        "choose one of fine-tune, classify, evaluation"
    )


def test_an_evaluation_is_shown(made: Runs) -> None:
    evaluation = made["evaluated tuned"]
    out = run("show", evaluation)
    for text in ("exact match", "0.250", "2.000", "own metric", "the test split, 6", "FINISHED"):
        assert text in out, text
    assert made["fine-tuned"] in out
    assert "judge" not in out
    assert "61.50, by llama3" in run("show", made["evaluated base"])
    shown = json.loads(run("show", evaluation[:8], "--json"))
    assert (shown["scores"]["exact_match"], shown["status"]) == (0.25, "FINISHED")
    assert shown["evaluation_of"] == made["fine-tuned"]


def test_a_classification_without_scores_is_shown(made: Runs) -> None:
    out = run("show", made["classify failed"])
    assert "a classification" in out
    assert "ValueError: no such column" in out
    assert f"twolevers classify --resume {made['classify failed'][:8]}" in out
    assert "--resume" not in run("show", made["classified"])
    shown = json.loads(run("show", made["classify failed"], "--json"))
    assert shown["scores"] is None
    assert not {"base", "tuned", "two_epoch_seconds"} & set(shown)
    # One of another machine has its figures in the store.
    assert "final/test accuracy  0.967" in run("show", made["classified"])


IS_CLASSIFICATION = "is a classification, not a fine-tuning; ask it: twolevers classify --run"
IS_EVALUATION = "is an evaluation, not a fine-tuning; name the run whose model answered"
IS_DELETED = "which was deleted in MLflow; restore it there"
ASKING = ("generate hello --run", "export --output x --run", "serve --port 0 --run", "evaluate")
OTHERS = ("rerun", "fine-tune --resume", "classify --instruction --run")


@pytest.mark.parametrize(
    ("commands", "name", "message"),
    [
        ((*ASKING, *OTHERS), "classified", IS_CLASSIFICATION),
        ((*ASKING, *OTHERS), "evaluated tuned", IS_EVALUATION),
        (("rerun",), "evaluated base", "not a fine-tuning; see it: twolevers show"),
        (("report",), "evaluated tuned", "not a fine-tuning or a classification"),
        (("report",), "classify failed", "has nothing to show in"),
        (("judge --run",), "classified", "not a fine-tuning or an evaluation"),
        (("compare latest",), "evaluated tuned", "not a fine-tuning or a classification"),
        (("compare latest",), "killed", r"has no two-epoch time \(it did not finish: it is KILLED"),
        (("compare fine-tuned",), "running", r"has no two-epoch time \(it is still running"),
        (("classify --run", "classify word --run"), "fine-tuned", "is a fine-tuning, not a class"),
        (("classify --run", "classify word --run"), "evaluated tuned", "not a classification; see"),
        (("classify --run",), "classify failed", "has no figures: it is FAILED"),
        (("classify word --run",), "classify failed", "it is FAILED and has written none; go on w"),
        (("classify --resume",), "classified", "this run has finished, there is nothing to cont"),
        (("classify --resume",), "fine-tuned", "is a fine-tuning, not a classification; ask it"),
        (("classify --resume",), "killed", "not a classification; go on with it: twolevers fine-"),
        (("fine-tune --resume",), "classify failed", "go on with it: twolevers classify --resume"),
        (("classify word --resume",), "classify failed", "goes on training, and --run"),
        ((*ASKING,), "running", "it is still running and has written none; wait for it"),
        ((*ASKING,), "elsewhere", "the run is of host-b; ask it there"),
        ((*ASKING,), "killed", "it is KILLED and has written none; go on with it: twolevers fine-"),
        (("rerun",), "elsewhere", "its folder is not on this machine"),
        (("show --published",), "classified", "is a classification, not a fine-tuning"),
        ((*ASKING, *OTHERS, "show", "report", "compare latest"), "deleted", IS_DELETED),
    ],
)
def test_a_run_that_cannot_be_used_is_named(
    made: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    commands: tuple[str, ...], name: str, message: str,
) -> None:  # fmt: skip
    """What it is, and what to do: on one line, and with nothing begun."""
    monkeypatch.chdir(tmp_path)
    for command in commands:
        words = [made.ids.get(word, word) for word in command.split()]
        ran = CliRunner().invoke(app, [*words, made[name]])
        assert isinstance(ran.exception, InputError), (command, ran.output, ran.exception)
        with pytest.raises(InputError, match=message):
            raise ran.exception
        lines = [line for line in str(ran.exception).splitlines() if made[name] in line]
        assert len(lines) == 1, (command, str(ran.exception))
    assert list(tmp_path.iterdir()) == []


def test_a_classifier_of_no_run_answers_nothing(tmp_path: Path) -> None:
    for name in ("config.json", CLASSIFIER_FILE):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    for command in ASKING:
        refused = CliRunner().invoke(app, [*command.split(), str(tmp_path)]).exception
        assert isinstance(refused, InputError)
        assert "classifies texts, it answers no instructions; ask it" in str(refused)
