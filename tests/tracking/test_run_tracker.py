import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from twolevers.records import DatasetFile, TokenisedData
from twolevers.settings import Home, Settings
from twolevers.time_limit import within
from twolevers.tracking import artifacts
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.protocol import Tracker
from twolevers.tracking.run_tracker import MlflowTracker
from twolevers.tracking.store import Store

MakeCheckpoint = Callable[..., Path]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def tracker(
    home: Home, settings: Settings, store: Store, said: list[str]
) -> Iterator[MlflowTracker]:
    with open_run(home=home, settings=settings, name="a run", warn=said.append) as tracker:
        yield tracker


def test_is_what_the_core_knows_as_a_tracker(tracker: MlflowTracker) -> None:
    core_side: Tracker = tracker
    assert core_side.run_id


def test_a_metric_that_is_no_finite_number_becomes_a_tag(
    tracker: MlflowTracker, store: Store, said: list[str]
) -> None:
    tracker.log_metrics({"train/loss": 3.0, "val/loss": math.nan}, step=1)
    tracker.log_metrics({"train/loss": math.inf, "val/loss": -math.inf}, step=2)
    tracker.log_metrics({"train/loss": 2.0, "odd": "x"}, step=3)  # type: ignore[dict-item]
    assert tracker.flush()
    run = store.client.get_run(tracker.run_id)
    assert run.data.tags["not_finite.val/loss"] == "step 1: nan"
    assert run.data.tags["not_finite.train/loss"] == "step 2: inf"
    assert run.data.tags["not_finite.odd"] == "step 3: x"
    # What the charts read.
    history = store.client.get_metric_history(tracker.run_id, "train/loss")
    assert [(m.step, m.value) for m in history] == [(1, 3.0), (3, 2.0)]
    assert store.client.get_metric_history(tracker.run_id, "val/loss") == []
    assert said == []


def test_every_step_arrives_with_tokens_and_its_own_time(
    tracker: MlflowTracker, store: Store
) -> None:
    before = time.time() * 1000
    for step in range(2500):
        tracker.log_metrics({"train/loss": float(step)}, step=step, tokens=10 * step)
    after = time.time() * 1000
    assert tracker.flush()
    losses = store.client.get_metric_history(tracker.run_id, "train/loss")
    assert [(m.step, m.value) for m in losses] == [(s, float(s)) for s in range(2500)]
    assert all(before - 1 <= m.timestamp <= after for m in losses)
    tokens = store.client.get_metric_history(tracker.run_id, "train/tokens")
    assert [(m.step, m.value) for m in tokens] == [(s, 10.0 * s) for s in range(1, 2500)]


def test_parameters_are_flat_complete_and_cut_where_too_long(
    tracker: MlflowTracker, store: Store
) -> None:
    many = {f"p{number}": number for number in range(250)}
    tracker.log_params(many | {"training": {"lr": 5e-5, "clip": None}, "long": "ü" * 9000})
    tracker.log_params({"odd key, (124M)?": 1, "p1": 1})
    tracker.log_params({"p1": 2})
    assert tracker.flush()
    data = store.client.get_run(tracker.run_id).data
    assert data.params.items() >= {f"p{n}": str(n) for n in range(250)}.items()
    assert (data.params["training.lr"], data.params["training.clip"]) == ("5e-05", "None")
    assert data.params["long"] == "ü" * 5999 + "…"
    assert data.params["odd key_ _124M__"] == "1"
    assert data.tags["changed.p1"] == "2"


def test_a_table_is_stored_as_the_ui_reads_it(tracker: MlflowTracker, store: Store) -> None:
    table = pd.DataFrame({"prompt": ["Größe?", "b"], "score": [0.5, None]})
    for _ in range(2):  # a retry of the stage replaces it
        tracker.log_table(table, "responses.json")
    assert tracker.flush()
    # As MLflow's own `load_table` reads it.
    found = pd.read_json(
        store.client.download_artifacts(tracker.run_id, "responses.json"), orient="split"
    )
    assert found["prompt"].tolist() == ["Größe?", "b"]
    assert found["score"].tolist()[0] == 0.5
    assert pd.isna(found["score"].tolist()[1])
    logged = store.client.get_run(tracker.run_id).data.tags["mlflow.loggedArtifacts"]
    assert json.loads(logged) == [{"path": "responses.json", "type": "table"}]


def test_the_data_set_is_an_input_with_hash_and_counts(
    tracker: MlflowTracker, store: Store, tmp_path: Path
) -> None:
    dataset = DatasetFile(
        name="embedded",
        path=tmp_path / "data.json",
        sha256="ab" * 32,
        num_bytes=5,
        verified="shipped",
    )
    data = TokenisedData(
        path=tmp_path,
        sha256="cd" * 32,
        data_sha256="ab" * 32,
        dataset="embedded",
        num_rows=1100,
        num_train=935,
        num_val=55,
        num_test=110,
        num_dropped=0,
        num_cut=1,
        train_tokens=9,
        longest=7,
    )
    for _ in range(2):
        tracker.log_dataset_input(dataset, data)
    inputs = store.client.get_run(tracker.run_id).inputs.dataset_inputs
    assert len(inputs) == 1
    found = inputs[0].dataset
    assert (found.name, found.digest) == ("embedded", ("ab" * 32)[:36])
    assert json.loads(found.source) == {"uri": str(tmp_path / "data.json")}
    profile = json.loads(found.profile)
    assert profile["sha256"] == "ab" * 32
    assert (profile["num_train"], profile["num_val"], profile["num_test"]) == (935, 55, 110)
    assert [(tag.key, tag.value) for tag in inputs[0].tags] == [("mlflow.data.context", "training")]


def test_weights_are_stored_once_and_those_removed_meanwhile_not_at_all(
    home: Home, settings: Settings, store: Store, make_checkpoint: MakeCheckpoint
) -> None:
    with open_run(home=home, settings=settings, name="a run") as tracker:
        for epoch in (1, 2, 3):
            path = make_checkpoint(tracker.folder, f"epoch-{epoch}", b"w" * epoch)
            tracker.log_checkpoint(path, step=epoch * 100, metrics={"val/loss": 1 / epoch})
        (tracker.folder / "checkpoints" / "best").symlink_to("epoch-2")
        for file in (tracker.folder / "checkpoints" / "epoch-1").iterdir():
            file.unlink()
        (tracker.folder / "checkpoints" / "epoch-1").rmdir()
    stored = home.mlflow / "artifacts" / tracker.run_id / "artifacts" / "checkpoints"
    assert sorted(path.name for path in stored.iterdir()) == ["best", "epoch-2", "epoch-3"]
    for name in ("epoch-2", "epoch-3"):
        ours = tracker.folder / "checkpoints" / name
        assert sorted(path.name for path in (stored / name).iterdir()) == [
            "config.json",
            "model.safetensors",
        ]
        assert (stored / name / "model.safetensors").samefile(ours / "model.safetensors")
    assert (stored / "best").resolve() == stored / "epoch-2"
    run = store.client.get_run(tracker.run_id)
    newest = tracker.folder / "checkpoints" / "epoch-3"
    assert run.data.tags["twolevers.checkpoint"] == str(newest.resolve())
    listed = {file.path for file in store.client.list_artifacts(tracker.run_id, "checkpoints")}
    assert {"checkpoints/epoch-2", "checkpoints/epoch-3"} <= listed
    records = artifacts.recorded_checkpoints(stored.parent)
    assert [(r["name"], r["step"], r["metrics"]) for r in records][2] == (
        "epoch-3",
        300,
        {"val/loss": pytest.approx(1 / 3)},
    )


def test_on_another_disk_checkpoints_are_copied(
    tmp_path: Path, make_checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    source = make_checkpoint(tmp_path, "epoch-1", b"weights")
    artifacts.link_checkpoint(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == b"weights"


def test_a_checkpoint_that_cannot_be_stored_is_pointed_to_and_training_goes_on(
    home: Home,
    settings: Settings,
    store: Store,
    make_checkpoint: MakeCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifacts, "link_checkpoint", full)
    with open_run(home=home, settings=settings, name="a run", warn=said.append) as tracker:
        path = make_checkpoint(tracker.folder, "epoch-1")
        tracker.log_checkpoint(path, step=1, metrics={})
        tracker.log_file(tracker.folder / "not there.png")
    run = store.client.get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["twolevers.checkpoint"] == str(path.resolve())
    assert str(path.resolve()) in run.data.tags["twolevers.not_stored"]
    assert len(said) == 2
    assert "not there.png" in said[0]
    assert "No space left on device" in said[1]


def test_an_upload_that_takes_too_long_is_given_up() -> None:
    started = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"not done after 0\.05 s"):
        within(0.05, lambda: time.sleep(1))
    assert time.perf_counter() - started < 0.8
    with pytest.raises(ConnectionError):
        within(5, _break)


def _break() -> None:
    raise ConnectionError("broken pipe")
