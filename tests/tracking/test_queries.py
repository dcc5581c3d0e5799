import json
import math
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from twolevers.errors import InputError
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.queries import (
    COLUMNS,
    empty_summary,
    find_flow_run,
    find_run,
    list_runs,
    read_summary,
)
from twolevers.tracking.store import Store

FLOW_1, FLOW_2 = "0198aaaa-1111-7000-8000-000000000001", "0198aaaa-2222-7000-8000-000000000002"
SUMMARY = {
    "model": "gpt2-nano (7M)",
    "device": "cpu",
    "precision": "float32",
    "two_epoch_seconds": 12.5,
    "train_seconds": 12.5,
    "tokens_per_second": 9000.0,
    "peak_memory_bytes": 600_000_000,
    "base": {"val_loss": 9.0, "exact_match": 0.0, "token_f1": 0.1, "rouge_l": 0.1, "chrf": 0.2},
    "tuned": {"val_loss": 0.9, "exact_match": 0.7, "token_f1": 0.8, "rouge_l": 0.8, "chrf": 0.9},
    "mlflow_run_id": None,
    "prefect_flow_run_id": FLOW_1,
    "fingerprint": "0123456789abcdef",
    "checkpoint": None,
    "status": "RUNNING",
}


@pytest.fixture
def finished(
    home: Home, settings: Settings, store: Store, make_checkpoint: Callable[..., Path]
) -> str:
    """Id of a finished run with a checkpoint, a summary and two flow runs."""
    with open_run(
        home=home,
        settings=settings,
        name="gpt2-nano (7M) · cpu · 2 epochs",
        params={"model": "gpt2-nano (7M)", "device": "cpu", "precision": "float32"},
        tags={
            names.PREFECT_FLOW_RUN_ID: f"{FLOW_1},{FLOW_2}",
            names.FINGERPRINT: "0123456789abcdef",
        },
    ) as tracker:
        path = make_checkpoint(tracker.folder, "epoch-2")
        tracker.log_checkpoint(path, step=10, metrics={})
        tracker.log_summary(SUMMARY, step=10)
    return tracker.run_id


def test_a_run_is_found_by_whatever_names_it(
    home: Home, settings: Settings, store: Store, finished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = home.run_folder(finished) / "checkpoints" / "epoch-2"
    stored = home.mlflow / "artifacts" / finished / "artifacts" / "checkpoints" / "epoch-2"
    monkeypatch.chdir(home.run_folder(finished) / "checkpoints")
    for name in (
        finished,
        finished.upper(),
        finished[:4],
        f" {finished[:12]} ",
        FLOW_1,
        FLOW_2,
        FLOW_2[:12],
        "latest",
        str(checkpoint),
        str(checkpoint) + "/",
        "./epoch-2",
        "epoch-2",
        str(home.run_folder(finished)),
        str(stored),
    ):
        info = find_run(name, home, settings)
        assert info.run_id == finished, name
        assert info.checkpoint == (stored if name == str(stored) else checkpoint)
    assert info.status == "FINISHED"
    assert info.flow_run_ids == [FLOW_1, FLOW_2]
    assert find_flow_run(FLOW_1, home, settings) == finished
    assert find_flow_run("0" * 8, home, settings) is None


def test_a_prefix_of_several_names_them(home: Home, settings: Settings, store: Store) -> None:
    ids = []
    for flow in (FLOW_1, FLOW_2):
        tags = {names.PREFECT_FLOW_RUN_ID: flow}
        with open_run(home=home, settings=settings, name="run", tags=tags) as tracker:
            ids.append(tracker.run_id)
    with pytest.raises(InputError, match="means 2 runs") as caught:
        find_run("0198aaaa", home, settings)
    assert all(run_id in str(caught.value) for run_id in ids)


def test_latest_is_the_one_started_last_whatever_became_of_it(
    home: Home, settings: Settings, store: Store, finished: str
) -> None:
    time.sleep(0.01)
    with pytest.raises(ValueError), open_run(home=home, settings=settings, name="b") as tracker:
        raise ValueError("broken")
    time.sleep(0.01)
    with open_run(home=home, settings=settings, name="a table", kind="table"):
        pass
    assert find_run("latest", home, settings).run_id == tracker.run_id
    assert find_run("latest", home, settings).status == "FAILED"
    store.client.delete_run(tracker.run_id)
    assert find_run("latest", home, settings).run_id == finished


def test_a_checkpoint_of_no_run_stands_for_itself(
    home: Home,
    settings: Settings,
    store: Store,
    tmp_path: Path,
    make_checkpoint: Callable[..., Path],
) -> None:
    path = make_checkpoint(tmp_path, "mine")
    info = find_run(str(path), home, settings)
    assert (info.run_id, info.checkpoint) == (None, path)
    with pytest.raises(InputError, match=r"is no checkpoint folder \(it has no config\.json\)"):
        find_run(str(tmp_path), home, settings)


def test_with_no_run_yet_it_says_how_to_start_one(
    home: Home, settings: Settings, store: Store
) -> None:
    for name in ("latest", "0123abcd"):
        with pytest.raises(InputError, match="there is no run yet; start one: twolevers fine-tune"):
            find_run(name, home, settings)
    with pytest.raises(InputError, match="no classify run yet; start one: twolevers classify"):
        find_run("latest", home, settings, kind=names.CLASSIFY)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ffff0000ffff", "no run has this id"),
        ("", "is too short"),
        ("abc", "is too short"),
        ("%%%%", "no run has this id"),
        ("' OR '1'='1", "no run has this id"),
        ("____", "no run has this id"),
        ("./nowhere", "there is no such folder"),
    ],
)
def test_what_names_no_run_is_refused(
    home: Home, settings: Settings, finished: str, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        find_run(name, home, settings)


def test_runs_are_listed_newest_first(home: Home, settings: Settings, finished: str) -> None:
    time.sleep(0.01)
    with open_run(home=home, settings=settings, name="open") as tracker:
        table = list_runs(home, settings)
    assert list(table.columns) == list(COLUMNS)
    assert table["run_id"].tolist() == [tracker.run_id, finished]
    assert table["status"].tolist() == ["RUNNING", "FINISHED"]
    row = table.iloc[1]
    assert row["model"] == "gpt2-nano (7M)"
    assert row["prefect_flow_run_id"] == FLOW_2
    assert row["two_epoch_seconds"] == 12.5
    assert (row["val_loss_base"], row["val_loss_tuned"]) == (9.0, 0.9)
    assert (row["exact_match_base"], row["exact_match_tuned"]) == (0.0, 0.7)
    assert abs((datetime.now(UTC) - row["started"]).total_seconds()) < 60
    assert math.isnan(table.iloc[0]["two_epoch_seconds"])
    assert len(list_runs(home, settings, limit=1)) == 1


def test_an_empty_store_lists_no_runs(home: Home, settings: Settings, store: Store) -> None:
    table = list_runs(home, settings)
    assert (list(table.columns), len(table)) == (list(COLUMNS), 0)


def test_a_summary_has_the_status_of_now(home: Home, settings: Settings, finished: str) -> None:
    info = find_run(finished, home, settings)
    summary = read_summary(info)
    assert info.checkpoint == home.run_folder(finished) / "checkpoints" / "epoch-2"
    assert summary == SUMMARY | {"status": "FINISHED", "checkpoint": str(info.checkpoint)}
    shutil.rmtree(home.run_folder(finished))  # the copy among the artifacts is left
    later = read_summary(find_run(finished, home, settings))
    assert later | {"checkpoint": None} == summary | {"checkpoint": None}


def test_a_run_that_did_not_finish_has_a_summary_with_gaps(
    home: Home, settings: Settings, store: Store
) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        open_run(home=home, settings=settings, name="a run", params={"model": "m"}) as tracker,
    ):
        raise KeyboardInterrupt
    info = find_run(tracker.run_id, home, settings)
    summary = json.loads(json.dumps(read_summary(info)))
    assert tuple(summary) == names.SUMMARY_KEYS
    assert (summary["model"], summary["status"]) == ("m", "KILLED")
    assert summary["mlflow_run_id"] == tracker.run_id
    assert summary["two_epoch_seconds"] is None
    assert summary["base"] == dict.fromkeys(names.SCORES)
    assert empty_summary(info) == summary
    tracker.folder.mkdir(parents=True)
    (tracker.folder / "summary.json").write_text('{"half', encoding="utf-8")
    assert read_summary(info) == summary
