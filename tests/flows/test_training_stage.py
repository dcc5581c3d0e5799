"""What surrounds a stage that trains."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path

import pytest

from tasks import artifacts, training
from tasks.progress import shown_by
from twolevers.errors import RunStopped
from twolevers.options import FineTuneOptions
from twolevers.progress import Silent
from twolevers.records import OpenRun


def test_a_stop_after_the_last_step_stops_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(artifacts, "get_run_logger", logging.getLogger)
    monkeypatch.setattr(training, "track", nullcontext)
    run = OpenRun(
        run_id="a run",
        flow_run_id=None,
        resumed=False,
        folder=tmp_path,
        options=FineTuneOptions(),
        hardware="a processor",
        threads=1,
    )

    def train(asked_to_stop: bool) -> str:
        with training.training_stage(run, "progress") as (_, _, stop):
            if asked_to_stop:
                stop.request("SIGTERM")
            return "trained"

    shown = shown_by.set(Silent)
    try:
        assert train(asked_to_stop=False) == "trained"
        with pytest.raises(RunStopped, match=r"after training \(SIGTERM\); the model is kept"):
            train(asked_to_stop=True)
    finally:
        shown_by.reset(shown)
