"""Several processes, and those that are killed. One test: every process costs seconds."""

import signal
import subprocess
import sys

import pytest

from twolevers.errors import InputError
from twolevers.settings import Home, Settings
from twolevers.tracking.alive import close_orphans
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import open_store

WORKER = """
import sys
from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run
with open_run(home=Home(), settings=Settings(), name=sys.argv[1]) as tracker:
    for step in range(200):
        tracker.log_metrics({"train/loss": 1 / (step + 1)}, step=step)
    assert tracker.flush()
    print(tracker.run_id, flush=True)
    sys.stdin.readline()
    sys.exit()
"""


def test_four_come_first_at_once_and_what_kills_leave_is_closed(
    home: Home, settings: Settings
) -> None:
    workers = {
        way: subprocess.Popen(
            [sys.executable, "-c", WORKER, way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for way in ("kill -9", "SIGTERM", "exit", "alive")
    }
    ids = {way: worker.stdout.readline().strip() for way, worker in workers.items()}  # type: ignore[union-attr]
    # All four opened the fresh store at once, and it is whole.
    store = open_store(home, settings)
    assert not list(home.mlflow.glob(".new*"))
    for run_id in ids.values():
        assert store.client.get_run(run_id).info.status == "RUNNING"
        assert len(store.client.get_metric_history(run_id, "train/loss")) == 200

    workers["kill -9"].kill()
    workers["SIGTERM"].send_signal(signal.SIGTERM)
    for way in ("kill -9", "SIGTERM", "exit"):
        said = workers[way].communicate("\n" if way == "exit" else None, timeout=60)
        assert said == ("", "")

    def status(way: str) -> str:
        return str(store.client.get_run(ids[way]).info.status)

    try:
        assert status("exit") == "KILLED"
        assert set(close_orphans(home, settings)) == {ids["kill -9"], ids["SIGTERM"]}
        assert status("kill -9") == status("SIGTERM") == "KILLED"
        assert status("alive") == "RUNNING"
        with (
            pytest.raises(InputError, match="is still running"),
            open_run(home=home, settings=settings, name="again", resume=ids["alive"]),
        ):
            raise AssertionError("not reached")
    finally:
        workers["alive"].communicate("\n", timeout=60)
    assert status("alive") == "KILLED"
    assert close_orphans(home, settings) == []
