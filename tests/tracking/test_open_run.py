import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from twolevers.classification.options import ClassifyOptions
from twolevers.errors import InputError, Problem, RunStopped, TrainingError, TwoleversError
from twolevers.options import FineTuneOptions
from twolevers.settings import Home, Settings
from twolevers.tracking import mlflow_tracker, names
from twolevers.tracking.alive import close_orphans
from twolevers.tracking.classify_runs import CLASSIFICATIONS
from twolevers.tracking.evaluated import find_evaluated
from twolevers.tracking.evaluations import evaluation_run
from twolevers.tracking.mlflow_tracker import attach_run, open_run
from twolevers.tracking.runs import FINE_TUNINGS, fine_tune_run
from twolevers.tracking.store import Store


class TerminationSignal(BaseException):
    """As Prefect raises it inside the training loop on cancelling."""


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "FINISHED"),
        (ValueError("out of memory\nsecond line"), "FAILED"),
        (TrainingError("the loss is no number"), "FAILED"),
        (InputError([]), "FAILED"),
        (RunStopped("stopped at step 5"), "KILLED"),
        (KeyboardInterrupt(), "KILLED"),
        (SystemExit(0), "KILLED"),
        (GeneratorExit(), "KILLED"),
        (TerminationSignal(), "KILLED"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_way_out_closes_the_run(
    home: Home, settings: Settings, store: Store, error: BaseException | None, status: str
) -> None:
    run_id = ""
    try:
        with open_run(home=home, settings=settings, name="a run") as tracker:
            run_id = tracker.run_id
            assert store.client.get_run(run_id).info.status == "RUNNING"
            tracker.log_metrics({"train/loss": 2.0}, step=1)
            if error:
                raise error
    except BaseException as raised:
        if raised is not error:
            raise
    run = store.client.get_run(run_id)
    assert run.info.status == status
    assert run.info.end_time >= run.info.start_time
    assert run.data.metrics["train/loss"] == 2.0
    assert ("twolevers.error" in run.data.tags) == (error is not None)
    if isinstance(error, ValueError):
        assert run.data.tags["twolevers.error"] == "ValueError: out of memory"
    assert not list((home.runs / ".open").iterdir())


def _reopen(home: Home, settings: Settings, run_id: str) -> None:
    with open_run(home=home, settings=settings, name="again", resume=run_id):
        pass


def test_runs_that_others_opened_are_left_alone(
    home: Home, settings: Settings, store: Store
) -> None:
    store.client.create_run(store.experiment_id)
    assert close_orphans(home, settings) == []


def test_two_runs_at_once_do_not_touch_each_other(
    home: Home, settings: Settings, store: Store
) -> None:
    with open_run(home=home, settings=settings, name="one") as one:
        with open_run(home=home, settings=settings, name="two") as two:
            two.log_metrics({"train/loss": 2.0}, step=1)
        one.log_metrics({"train/loss": 1.0}, step=1)
        assert store.client.get_run(one.run_id).info.status == "RUNNING"
    for tracker, loss in ((one, 1.0), (two, 2.0)):
        run = store.client.get_run(tracker.run_id)
        assert (run.info.status, run.data.metrics) == ("FINISHED", {"train/loss": loss})


def test_resume_reopens_the_same_run_and_notes_what_changed(
    home: Home, settings: Settings, store: Store
) -> None:
    def session(resume: str | None, steps: range, flow: str, **params: object) -> str:
        with open_run(
            home=home,
            settings=settings,
            name="a run",
            params={"epochs": 2, "batch_size": 8} | params,
            tags={"prefect.flow_run_id": flow},
            resume=resume,
        ) as tracker:
            for step in steps:
                tracker.log_metrics({"train/loss": 10.0 - step}, step=step)
            if not resume:
                raise ValueError("power cut")
        return tracker.run_id

    with pytest.raises(ValueError, match="power cut"):
        session(None, range(6), "flow-1")
    run_id = store.client.search_runs([store.experiment_id])[0].info.run_id
    # The checkpoint was written at step 3: steps 4 and 5 are trained a second time.
    assert session(run_id, range(4, 9), "flow-2", batch_size=4, new=1) == run_id

    run = store.client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"epochs": "2", "batch_size": "8", "new": "1"}
    assert run.data.tags["changed.batch_size"] == "4"
    assert "changed.epochs" not in run.data.tags
    assert "twolevers.error" not in run.data.tags
    assert run.data.tags["prefect.flow_run_id"] == "flow-1,flow-2"
    history = store.client.get_metric_history(run_id, "train/loss")
    assert sorted((m.step, m.value) for m in history) == [(s, 10.0 - s) for s in range(9)]


@pytest.mark.parametrize("run_id", ["0" * 32, "not-there", "../../etc"])
def test_a_run_that_is_not_there_cannot_be_resumed(
    home: Home, settings: Settings, store: Store, run_id: str
) -> None:
    with pytest.raises(InputError, match="not in the tracking store"):
        _reopen(home, settings, run_id)


def test_a_deleted_run_cannot_be_resumed(home: Home, settings: Settings, store: Store) -> None:
    run_id = store.client.create_run(store.experiment_id).info.run_id
    store.client.delete_run(run_id)
    with pytest.raises(InputError, match="was deleted"):
        _reopen(home, settings, run_id)


def test_a_stage_attaches_to_the_open_run(
    home: Home, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_run(home=home, settings=settings, name="a run") as tracker:
        # A server that is away just then is not missed.
        monkeypatch.setattr(mlflow_tracker, "open_store", None)
        with attach_run(home=home, settings=settings, run_id=tracker.run_id) as stage:
            stage.log_metrics({"train/loss": 1.0}, step=1, tokens=12)
        assert tracker.flush()
        run = store.client.get_run(tracker.run_id)
        assert run.info.status == "RUNNING"
        reported = {"train/loss": 1.0, "train/tokens": 12}
        assert run.data.metrics | reported == run.data.metrics  # the system's stand there too
    assert store.client.get_run(tracker.run_id).info.status == "FINISHED"


def test_another_process_attaches_through_the_store(
    home: Home, settings: Settings, store: Store
) -> None:
    run_id = store.client.create_run(store.experiment_id).info.run_id
    with attach_run(home=home, settings=settings, run_id=run_id) as stage:
        stage.log_metrics({"train/loss": 1.0}, step=1)
    run = store.client.get_run(run_id)
    assert (run.info.status, run.data.metrics) == ("RUNNING", {"train/loss": 1.0})


def test_a_run_says_what_it_was_made_with(
    home: Home, settings: Settings, store: Store, tmp_path: Path
) -> None:
    with open_run(home=home, settings=settings, name="gpt2-nano · cpu", tags={"a": "b"}) as run:
        run.set_description("# What happened")
    found = store.client.get_run(run.run_id)
    assert found.info.run_name == "gpt2-nano · cpu"
    tags = found.data.tags
    assert tags["twolevers.pid"] == str(os.getpid())
    assert tags["version.mlflow"].startswith("3.")
    assert tags["version.python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"version.torch", "version.prefect", "mlflow.user", "a"} <= set(tags)
    assert tags["mlflow.note.content"] == "# What happened"
    at = f"/#/experiments/{store.experiment_id}/runs/{run.run_id}"
    assert run.page == f"{at}?workflowType=machine_learning"


KINDS = {
    "fine-tune": (
        lambda: fine_tune_run(FineTuneOptions(device="cpu"), flow_run_id=None),
        "Stopped.\nContinue with: twolevers fine-tune --resume {run_id}",
        "go on: twolevers fine-tune --resume {run_id}",
    ),
    "classify": (
        lambda: CLASSIFICATIONS.opened(ClassifyOptions(device="cpu"), flow_run_id=None),
        "Stopped.\nContinue with: twolevers classify --resume {run_id}",
        "go on: twolevers classify --resume {run_id}",
    ),
    "evaluation": (
        lambda: evaluation_run(
            find_evaluated("gpt2-nano", device="cpu", precision="float32"), flow_run_id=None
        ),
        "Stopped. What was judged is kept; evaluate once more to have the rest.",
        "try again",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_one_error_that_says_what_to_do(
    home: Home, settings: Settings, store: Store, kind: str
) -> None:
    open_kind, _, then = KINDS[kind]
    with (
        pytest.raises(
            TwoleversError, match=r"no room for .*responses-base\.jsonl \(No space"
        ) as said,
        open_kind() as run,
    ):
        raise OSError(
            errno.ENOSPC, os.strerror(errno.ENOSPC), str(run.folder / "responses-base.jsonl")
        )
    assert str(said.value).endswith(then.format(run_id=run.run_id))
    assert store.client.get_run(run.run_id).info.status == "FAILED"


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_says_whether_the_run_can_go_on(
    home: Home, settings: Settings, store: Store, kind: str
) -> None:
    open_kind, then, _ = KINDS[kind]
    with pytest.raises(RunStopped) as said, open_kind() as run:
        raise TerminationSignal
    assert str(said.value) == then.format(run_id=run.run_id)
    kept = store.client.get_run(run.run_id)
    assert (kept.info.status, kept.data.tags["twolevers.kind"]) == ("KILLED", kind)


@pytest.mark.parametrize("kind", names.RESUMABLE)
def test_a_refused_change_is_forgotten(
    home: Home, settings: Settings, store: Store, kind: str
) -> None:
    runs: Any = {names.FINE_TUNE: FINE_TUNINGS, names.CLASSIFY: CLASSIFICATIONS}[kind]

    def stop(error: BaseException, resume: str | None = None, **training: int) -> tuple[str, int]:
        asked = runs.options(device="cpu", training=training)
        with (
            pytest.raises(type(error)),
            runs.opened(asked, flow_run_id=None, resume_from=resume) as run,
        ):
            raise error
        return run.run_id, runs.read_options(run.folder).training.epochs

    run_id, _ = stop(RunStopped("after 5 steps"), epochs=3)
    refused = InputError(Problem("--epochs", 1, "the run is in epoch 2", "take at least 2"))
    assert stop(refused, run_id, epochs=1) == (run_id, 3)
    assert stop(RunStopped("after 7 steps"), run_id, epochs=4) == (run_id, 4)
    assert stop(RunStopped("after 9 steps"), run_id) == (run_id, 4)
