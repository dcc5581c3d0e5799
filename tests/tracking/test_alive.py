"""What a kill leaves open, seen without a process for it: a lock file that nobody holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from flows.cli import app
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.alive import LOCK_TAG, RunLock, close_orphans_in, killed_runs
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store


@pytest.mark.parametrize("local", [True, False], ids=["home's store", "server"])
def test_what_a_kill_left_open_is_closed(
    home: Home, settings: Settings, store: Store, local: bool
) -> None:
    store = replace(store, local=local)
    left = RunLock(home)
    elsewhere = RunLock(home)  # of another machine, where a server keeps the runs
    with open_run(home=home, settings=settings, name="open") as tracker:
        left.path.touch()
        assert killed_runs(home) == [left.name]
        ids = [
            store.client.create_run(store.experiment_id, tags={LOCK_TAG: lock.name}).info.run_id
            for lock in (left, elsewhere)
        ]
        gone = ids if local else ids[:1]
        assert set(close_orphans_in(store, home)) == set(gone)
        assert store.client.get_run(tracker.run_id).info.status == "RUNNING"
        assert killed_runs(home) == []
    assert store.client.get_run(ids[0]).info.status == "KILLED"
    assert close_orphans_in(store, home) == []


@pytest.mark.parametrize("kind", names.RESUMABLE)
def test_who_looks_sees_what_was_killed_and_how_to_go_on(
    home: Home, settings: Settings, store: Store, kind: str
) -> None:
    left = RunLock(home)
    left.path.parent.mkdir(parents=True, exist_ok=True)
    left.path.touch()
    tags = {LOCK_TAG: left.name, names.KIND: kind}
    run_id = store.client.create_run(store.experiment_id, tags=tags).info.run_id
    store.client.log_param(run_id, "model", "gpt2-nano (7M)")
    for command in ("runs", f"show {run_id}"):
        assert store.client.get_run(run_id).info.status == "RUNNING"
        ran = CliRunner().invoke(app, command.split(), catch_exceptions=False)
        assert "KILLED" in ran.output
        store.client.update_run(run_id, status="RUNNING")
        left.path.touch()
    assert f"twolevers {kind} --resume {run_id[:8]}" in ran.output
