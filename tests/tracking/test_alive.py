"""What a kill leaves open, seen without a process for it: a lock file that nobody holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twolevers.settings import Home, Settings
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
