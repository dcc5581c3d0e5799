"""The background writer against a store that fails in every way a store can."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from twolevers.settings import Home, Settings
from twolevers.tracking.alive import close_orphans
from twolevers.tracking.leftovers import read_leftovers
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store
from twolevers.tracking.writer import Writer


class FakeClient:
    """Takes batches once `failing` is over, and remembers them."""

    def __init__(self, failing: Callable[[], BaseException | None]) -> None:
        self.failing = failing
        self.metrics: list[Any] = []
        self.tags: dict[str, str] = {}
        self.status: str | None = None
        self.sizes: list[int] = []

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        error = self.failing()
        if error:
            raise error
        self.sizes.append(len(metrics) + len(params) + len(tags))
        self.metrics += metrics
        self.tags |= {tag.key: tag.value for tag in tags}

    def set_terminated(self, run_id: str, status: str, end_time: int) -> None:
        if error := self.failing():
            raise error
        self.status = status

    def get_run(self, run_id: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(lifecycle_stage="active"))


def make_writer(client: FakeClient, folder: Path, said: list[str]) -> Writer:
    run = SimpleNamespace(
        info=SimpleNamespace(run_id="a" * 32),
        data=SimpleNamespace(params={}, tags={}, metrics={}),
    )
    return Writer(client, run, folder=folder, warn=said.append)  # type: ignore[arg-type]


def test_a_store_that_is_down_for_a_while_loses_nothing(tmp_path: Path) -> None:
    answers = iter([ConnectionError("refused"), ConnectionError("refused")])
    said: list[str] = []
    client = FakeClient(lambda: next(answers, None))
    writer = make_writer(client, tmp_path, said)
    for step in range(5):
        writer.put_metrics({"train/loss": 1.0}, step, 0)
    assert writer.close("FINISHED", 20)
    assert [metric.step for metric in client.metrics] == list(range(5))
    assert client.status == "FINISHED"
    assert "Training goes on" in said[0]
    assert "answers again" in said[1]
    assert not list(tmp_path.iterdir())


def test_what_never_arrives_is_kept_in_the_runs_folder(tmp_path: Path) -> None:
    said: list[str] = []
    writer = make_writer(FakeClient(lambda: ConnectionError("refused")), tmp_path, said)
    writer.put_metrics({"train/loss": 1.5}, 3, 40)
    writer.put_params({"epochs": 2})
    writer.put_tags({"a": "ü"})
    started = time.perf_counter()
    assert not writer.close("FINISHED", 0.3)
    assert time.perf_counter() - started < 3
    entries = read_leftovers(tmp_path / "tracking-leftover.jsonl")
    shown = [(e["kind"], e.get("key"), e.get("value"), e.get("step")) for e in entries]
    assert shown == [
        ("metric", "train/loss", 1.5, 3),
        ("metric", "train/tokens", 40.0, 3),
        ("param", "epochs", "2", None),
        ("tag", "a", "ü", None),
        ("status", None, None, None),
    ]
    assert entries[-1]["status"] == "FINISHED"
    assert "tracking-leftover.jsonl" in said[-1]


def test_a_store_that_hangs_does_not_hold_the_run(tmp_path: Path) -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait(30)

    said: list[str] = []
    writer = make_writer(FakeClient(hang), tmp_path, said)
    writer.put_metrics({"train/loss": 1.0}, 1, 0)
    time.sleep(0.1)
    started = time.perf_counter()
    for step in range(2, 1000):
        writer.put_metrics({"train/loss": 1.0}, step, 0)
    assert time.perf_counter() - started < 0.5
    assert not writer.close("KILLED", 0.3)
    release.set()
    entries = read_leftovers(tmp_path / "tracking-leftover.jsonl")
    assert [e["step"] for e in entries if e["kind"] == "metric"] == list(range(1, 1000))


def test_a_part_that_is_refused_does_not_hold_back_the_rest(tmp_path: Path) -> None:
    said: list[str] = []
    client = FakeClient(lambda: None)
    log_batch = client.log_batch

    def refuse_bad(run_id: str, **parts: Any) -> None:
        if any(tag.key == "bad" for tag in parts.get("tags", ())):
            raise MlflowException("no such thing", error_code=INVALID_PARAMETER_VALUE)
        log_batch(run_id, **parts)

    client.log_batch = refuse_bad  # type: ignore[method-assign]
    writer = make_writer(client, tmp_path, said)
    writer.put_tags({"good": "1", "bad": "2"})
    writer.put_metrics({"train/loss": 1.0}, 1, 0)
    writer.close("FINISHED", 20)
    assert (client.tags, client.status, len(client.metrics)) == ({"good": "1"}, "FINISHED", 1)
    assert [e["key"] for e in read_leftovers(tmp_path / "tracking-leftover.jsonl")] == ["bad"]
    assert "refused" in said[0]


def test_batches_stay_within_what_mlflow_takes(tmp_path: Path) -> None:
    client = FakeClient(lambda: None)
    writer = make_writer(client, tmp_path, [])
    for step in range(3000):
        writer.put_metrics({"a": 1.0}, step, 0)
    writer.put_tags({f"t{number}": "x" for number in range(300)})
    assert writer.close(None, 20)
    assert len(client.metrics) == 3000
    assert len(client.tags) == 300
    assert max(client.sizes) <= 1000


def test_what_was_kept_is_sent_at_the_next_start(
    home: Home, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with open_run(
        home=home, settings=settings, name="a run", warn=said.append, close_seconds=0.3
    ) as tracker:
        assert tracker.flush()
        with monkeypatch.context() as patch:
            patch.setattr(type(store.client), "log_batch", _refuse)
            patch.setattr(type(store.client), "set_terminated", _refuse)
            tracker.log_metrics({"train/loss": 1.25}, step=4)
            tracker.log_params({"late": True})
            tracker.writer.close("FINISHED", 0.3)
    kept = tracker.folder / "tracking-leftover.jsonl"
    assert kept.is_file()
    assert store.client.get_run(tracker.run_id).info.status == "RUNNING"

    assert close_orphans(home, settings) == []
    run = store.client.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert (run.data.metrics, run.data.params) == ({"train/loss": 1.25}, {"late": "True"})
    assert not kept.exists()


def _refuse(*_: object, **__: object) -> None:
    raise ConnectionError("server is down")


def test_a_broken_line_among_leftovers_is_passed_over(tmp_path: Path) -> None:
    good = json.dumps({"kind": "tag", "key": "a", "value": "b"})
    path = tmp_path / "tracking-leftover.jsonl"
    path.write_text(f'{good}\n{{"kind": "met\n[1]\n{good}\n', encoding="utf-8")
    assert len(read_leftovers(path)) == 2
