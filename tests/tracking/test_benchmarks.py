"""`twolevers lm-eval` on a run: what is printed and tracked, with the harness replaced."""

from __future__ import annotations

import json

import pytest
from helpers import TINY, write_random_weights

from flows.harness import run_harness
from twolevers.errors import InputError
from twolevers.evaluation import harness
from twolevers.files import write_json
from twolevers.options import FineTuneOptions
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store

FOUND = {"colours": {"acc": 0.75, "acc_stderr": 0.25, "em/strict": 0.5, "em_stderr/strict": 0.1}}
ASKED = {"base": False, "folder": None, "num_fewshot": None, "device": "cpu", "precision": "auto"}


def test_figures_are_printed_and_tracked(
    home: Home,
    settings: Settings,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = FineTuneOptions(model="gpt2-nano (7M)")
    with open_run(
        home=home, settings=settings, name="nano", params={"model": options.model}, tags={}
    ) as tracker:
        checkpoint = write_random_weights(tracker.folder / "checkpoints" / "epoch-2", TINY)
        write_json(tracker.folder / names.OPTIONS_FILE, options.model_dump())
        tracker.log_checkpoint(checkpoint, step=1, metrics={})
    asked_for: dict[str, object] = {}

    def evaluate_tasks(
        model: harness.HarnessModel, tasks: list[str], **how: object
    ) -> dict[str, dict[str, float]]:
        asked_for.update(how, tasks=tasks, context=model.max_length)
        return FOUND

    monkeypatch.setattr(harness, "evaluate_tasks", evaluate_tasks)
    run_harness(tracker.run_id, ["colours"], limit=None, as_json=False, **ASKED)
    shown = capsys.readouterr().out
    assert "acc        0.7500          0.2500" in shown
    assert "em/strict  0.5000          0.1000" in shown
    run_harness(tracker.run_id, ["colours"], limit=4, as_json=True, **ASKED)
    assert json.loads(capsys.readouterr().out)["tasks"] == FOUND
    assert (asked_for["tasks"], asked_for["limit"]) == (["colours"], 4)
    assert asked_for["context"] == TINY.context_length

    run = store.client.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["lm-eval/tuned/colours/acc"] == 0.75
    assert run.data.metrics["lm-eval/tuned/first-4/colours/em/strict"] == 0.5
    with pytest.raises(InputError, match="no task"):
        run_harness(tracker.run_id, [], limit=None, as_json=False, **ASKED)
