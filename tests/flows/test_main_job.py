"""The whole main job once, as `make run` does it: no server, no network, the shipped model."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import torch
from command import Command

from twolevers.data.batch import Row, collate
from twolevers.models.attention import causal_within
from twolevers.models.weights import load_model
from twolevers.settings import Home, Settings
from twolevers.tracking.queries import find_run


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Command, str]:
    command = Command(tmp_path_factory.mktemp("home"))
    # Fewer evaluations and shorter answers than `make run`: the test must not take its time.
    return command, command.run("fine-tune", "--eval-every", "50", "--max-new-tokens", "64")


@pytest.fixture(scope="module")
def summary(done: tuple[Command, str]) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(done[0].run_here("show", "--json"))
    return summary


def test_nano_learns_the_task(summary: dict[str, Any]) -> None:
    base, tuned = summary["base"], summary["tuned"]
    assert base["exact_match"] <= 0.05
    assert tuned["exact_match"] >= 0.60
    assert tuned["val_loss"] <= base["val_loss"] / 4


def test_summary_has_every_key(summary: dict[str, Any]) -> None:
    assert summary["model"].startswith("gpt2-nano (")
    assert (summary["device"], summary["status"]) == ("cpu", "FINISHED")
    assert summary["two_epoch_seconds"] == summary["train_seconds"] > 0
    assert summary["tokens_per_second"] > 0
    assert summary["peak_memory_bytes"] > 50e6
    assert len(summary["mlflow_run_id"]) == 32
    assert len(summary["prefect_flow_run_id"]) == 36
    assert summary["fingerprint"]
    for role in ("base", "tuned"):
        for name in ("exact_match", "token_f1", "rouge_l", "chrf"):
            assert 0 <= summary[role][name] <= 1
        assert math.isfinite(summary[role]["val_loss"])
        assert len(summary[role]["by_kind"]) >= 20


def test_output_tells_what_came_out(done: tuple[Command, str], summary: dict[str, Any]) -> None:
    _, output = done
    for text in (
        "two epochs",
        "exact match",
        "token F1",
        "five answers",
        "checkpoint",
        "twolevers ui mlflow",
        "twolevers ui prefect",
        summary["mlflow_run_id"],
        f"{summary['tuned']['exact_match']:.3f}",
    ):
        assert text in output
    assert "step 0: train" in output  # plain lines where there is no terminal


def test_checkpoint_loads_in_transformers(summary: dict[str, Any]) -> None:
    from transformers import GPT2LMHeadModel

    theirs = GPT2LMHeadModel.from_pretrained(summary["checkpoint"]).eval()
    ours = load_model(Path(summary["checkpoint"])).eval()
    batch = collate([Row([15496, 11, 995, 0, 50256])])
    with torch.no_grad():
        hidden = ours(batch.input_ids, batch.positions, causal_within(batch.lengths))
        expected = theirs(batch.input_ids.unsqueeze(0)).logits.squeeze(0)
        torch.testing.assert_close(ours.logits(hidden), expected, atol=1e-4, rtol=0)


def test_flow_run_bears_the_tag_and_its_stages_none(done: tuple[Command, str]) -> None:
    with sqlite3.connect(done[0].home / ".prefect" / "prefect.db") as database:
        flow_runs = database.execute("select tags from flow_run").fetchall()
        stages = database.execute("select tags from task_run").fetchall()
    assert [json.loads(tags) for (tags,) in flow_runs] == [["twolevers"]]
    assert len(stages) > 5
    assert {tags for (tags,) in stages} == {"[]"}  # each would cost a question to the server


def test_run_is_tracked(done: tuple[Command, str], summary: dict[str, Any]) -> None:
    home = done[0].home
    run_id = summary["mlflow_run_id"]
    with sqlite3.connect(home / "mlflow" / "mlflow.db") as database:
        assert database.execute("select status from runs").fetchall() == [("FINISHED",)]
        steps = database.execute(
            "select count(*), max(step) from metrics where key = 'train/loss'"
        ).fetchone()
        params = dict(database.execute("select key, value from params").fetchall())
        tags = dict(database.execute("select key, value from tags").fetchall())
        inputs = database.execute(
            "select count(*) from inputs where source_type = 'DATASET'"
        ).fetchone()
    assert steps == (232, 231)
    assert params["epochs"] == "2"
    assert params["batch_size"] == "8"
    assert params["model"] == summary["model"]
    assert tags["prefect.flow_run_id"] == summary["prefect_flow_run_id"]
    assert tags["twolevers.fingerprint"] == summary["fingerprint"]
    assert inputs == (1,)
    [artifacts] = (home / "mlflow").rglob(f"{run_id}/artifacts")
    for name in (
        "responses.json",
        "scores.json",
        "loss-curve.png",
        "report.html",
        "charts.html",
        "summary.json",
        "ledger.json",
    ):
        assert (artifacts / name).is_file()
    stored = next(artifacts.rglob("epoch-2/model.safetensors"))
    assert stored.samefile(Path(summary["checkpoint"]) / "model.safetensors")  # stored once


def test_forecast_was_near(done: tuple[Command, str], summary: dict[str, Any]) -> None:
    """Memory alone: a time depends on what else the machine does."""
    command, output = done
    metrics = find_run("latest", Home(command.home), Settings()).metrics
    forecast, peak = metrics["forecast/peak_memory_bytes"], summary["peak_memory_bytes"]
    assert forecast == pytest.approx(peak, rel=0.15)
    assert metrics["forecast/train_seconds"] > 0
    # On a busy machine the first step alone is timed, and what the run takes at most is said.
    assert re.search(r"memory: about .*training: (about )?\d.* \(.*from ", output, re.DOTALL)


def test_trainer_state_is_gone(summary: dict[str, Any]) -> None:
    assert not list(Path(summary["checkpoint"]).parent.rglob("trainer_state*"))


def test_generate_answers(done: tuple[Command, str]) -> None:
    command, _ = done
    tuned = command.run("generate", "--run", "latest", 'What is the opposite of "full"?')
    question = ('What is the opposite of "full"?', "--max-new-tokens", "20")
    base = command.run_here("generate", "--base", *question)
    assert 0 < len(tuned.strip()) < 100
    assert tuned != base


def test_runs_are_listed(done: tuple[Command, str], summary: dict[str, Any]) -> None:
    [run] = json.loads(done[0].run_here("runs", "--json"))
    assert run["run_id"] == summary["mlflow_run_id"]
    assert run["status"] == "FINISHED"
    assert run["exact_match_tuned"] == pytest.approx(summary["tuned"]["exact_match"])


@pytest.mark.parametrize("form", ["mlflow id", "flow run id", "prefix", "checkpoint"])
def test_run_can_be_named(done: tuple[Command, str], summary: dict[str, Any], form: str) -> None:
    name = {
        "mlflow id": summary["mlflow_run_id"],
        "flow run id": summary["prefect_flow_run_id"],
        "prefix": summary["prefect_flow_run_id"][:8],
        "checkpoint": summary["checkpoint"],
    }[form]
    assert done[0].summary(name)["mlflow_run_id"] == summary["mlflow_run_id"]


def test_finished_run_is_not_resumed_silently(done: tuple[Command, str]) -> None:
    message = done[0].run_here("fine-tune", "--resume", "latest", status=2)
    assert "has finished" in message
    assert "--weights" in message
