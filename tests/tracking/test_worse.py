"""A loss beside the last run's."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from twolevers.options import FineTuneOptions
from twolevers.records import FineTuneRun, RunSummary, Scores
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store
from twolevers.tracking.worse import worse_than_last

NANO, SMALL = "gpt2-nano (7M)", "gpt2-small (124M)"
WORKLOAD = "0123456789abcdef"


def finish(
    home: Home, settings: Settings, loss: float, model: str = NANO, workload: str = WORKLOAD
) -> str:
    """A run that finished with this validation loss."""
    with open_run(
        home=home,
        settings=settings,
        name="run",
        params={"model": model},
        tags={names.FINGERPRINT: workload},
    ) as tracker:
        tracker.log_metrics({"tuned/val_loss": loss}, step=1)
    return tracker.run_id


def look(run_id: str, loss: float) -> str | None:
    """What is said of a run that is about to end with this loss."""
    scores = Scores.model_construct(role="tuned", val_loss=loss)
    summary = RunSummary.model_construct(fingerprint=WORKLOAD, tuned=scores)
    run = FineTuneRun(
        run_id=run_id,
        flow_run_id=None,
        resumed=False,
        folder=Path("runs"),
        options=FineTuneOptions(model=NANO),
        hardware="a processor",
        threads=1,
    )
    worse = worse_than_last(run, summary)
    return str(worse) if worse else None


def test_a_loss_is_compared_with_the_last_of_its_kind(
    home: Home, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look("new", 9.9) is None  # the first of its kind
    finish(home, settings, 0.1)
    last = finish(home, settings, 0.4)
    finish(home, settings, 0.1, model=SMALL)
    finish(home, settings, 0.1, workload="another")
    failed = finish(home, settings, 0.1)
    store.client.set_terminated(failed, status="FAILED")

    assert look("new", 0.3) is None
    assert look("new", 0.419) is None  # 5 % of 0.4 are 0.02
    told = look("new", 0.46)
    assert told is not None
    assert "0.4600, 15.0% above the 0.4000" in told
    assert last in told
    assert look("new", math.nan) is not None
    monkeypatch.setenv("TWOLEVERS_WORSE_BY", "0.2")
    assert look("new", 0.46) is None
    assert look("new", 0.49) is not None
