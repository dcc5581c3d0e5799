"""What the registry holds after runs made by hand; each ends as a fine-tuning does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights

from twolevers.data.tokenise import tokenise
from twolevers.device import find_device
from twolevers.files import sha256_of, write_json
from twolevers.fingerprint import fingerprint_parts, workload_fingerprint
from twolevers.generation.answers import read_answers
from twolevers.generation.respond import respond
from twolevers.options import FineTuneOptions
from twolevers.plan import flat_options
from twolevers.progress import Silent
from twolevers.records import DatasetFile
from twolevers.settings import Home, Settings
from twolevers.tracking import artifacts, registry
from twolevers.tracking.clean import clean, plan_clean
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store, open_store

NAME = "twolevers-gpt2-nano"
OPTIONS = FineTuneOptions.model_validate(
    {
        "model": "gpt2-nano (8M)",
        "device": "cpu",
        "precision": "float32",
        "generation": {"max_new_tokens": 6},
    }
)
Finish = Callable[..., str]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def finish(home: Home, settings: Settings, store: Store, said: list[str]) -> Finish:
    """Makes a run of two epochs with these validation losses; its id."""

    def make(
        *losses: float,
        data: str = "a" * 64,
        options: FineTuneOptions = OPTIONS,
        upload_seconds: float = 60,
    ) -> str:
        params = flat_options(options)
        with open_run(
            home=home,
            settings=settings,
            name="a run",
            params=params,
            warn=said.append,
            upload_seconds=upload_seconds,
        ) as tracker:
            write_json(tracker.folder / "options.json", options.model_dump(mode="json"))
            tracker.set_tags(
                {
                    "twolevers.fingerprint": workload_fingerprint(options, data),
                    "twolevers.workload": json.dumps(fingerprint_parts(options, data)),
                }
            )
            for epoch, loss in enumerate(losses, start=1):
                folder = tracker.folder / "checkpoints" / f"epoch-{epoch}"
                write_random_weights(folder, TINY, seed=epoch)
                metrics = {"val/epoch_loss": loss}
                tracker.log_metrics(metrics, step=10 * epoch - 1)
                tracker.log_checkpoint(folder, step=10 * epoch - 1, metrics=metrics)
            tracker.log_metrics({"tuned/exact_match": 0.5}, step=20)
        return tracker.run_id

    return make


def alias(store: Store, name: str) -> str:
    """Id of the run whose version holds the alias."""
    return str(store.client.get_model_version_by_alias(NAME, name).run_id)


def test_best_is_the_lowest_loss_on_the_same_data_and_newest_the_last(
    store: Store, finish: Finish, said: list[str]
) -> None:
    first = finish(2.0, 1.5)
    assert said == []
    assert (alias(store, "best"), alias(store, "newest")) == (first, first)
    worse = finish(1.8)
    assert (alias(store, "best"), alias(store, "newest")) == (first, worse)
    better = finish(1.2, 1.9)  # its first epoch's checkpoint
    assert (alias(store, "best"), alias(store, "newest")) == (better, better)
    version = store.client.get_model_version_by_alias(NAME, "best")
    assert version.source.endswith("/checkpoints/epoch-1")
    other_data = finish(0.1, data="b" * 64)
    assert (alias(store, "best"), alias(store, "newest")) == (better, other_data)
    measured_otherwise = OPTIONS.model_copy(
        update={"data": OPTIONS.data.model_copy(update={"loss_on": "response"})}
    )
    finish(0.1, options=measured_otherwise)
    assert alias(store, "best") == better
    assert said == []
    tags = store.client.get_run(better).data.tags
    assert tags["twolevers.registered"] == f"{NAME} version 3 (newest, best)"


def test_each_checkpoint_is_a_logged_model_with_its_step_and_metrics(
    store: Store, finish: Finish
) -> None:
    run_id = finish(2.0, 1.5)
    models = store.client.search_logged_models([store.experiment_id])
    found = {model.name: model for model in models}
    assert set(found) == {"gpt2-nano epoch-1", "gpt2-nano epoch-2"}
    run = store.client.get_run(run_id)
    steps = {output.model_id: output.step for output in run.outputs.model_outputs}
    for epoch, loss in ((1, 2.0), (2, 1.5)):
        model = found[f"gpt2-nano epoch-{epoch}"]
        metrics = {metric.key: (metric.value, metric.step) for metric in model.metrics or []}
        assert metrics.pop("val/epoch_loss") == (loss, 10 * epoch - 1)
        # The last one is what generation and evaluation ran on.
        assert metrics == ({"tuned/exact_match": (0.5, 20)} if epoch == 2 else {})
        assert steps[model.model_id] == 10 * epoch - 1
        assert model.status == "READY"
        assert model.source_run_id == run_id
    # The run's own course has no second entry of what its models were given.
    history = store.client.get_metric_history(run_id, "val/epoch_loss")
    assert [(metric.step, metric.value) for metric in history] == [(9, 2.0), (19, 1.5)]


def test_weights_are_stored_once_and_nothing_is_pickled(
    home: Home, store: Store, finish: Finish
) -> None:
    run_id = finish(2.0)
    ours = home.run_folder(run_id) / "checkpoints" / "epoch-1" / "model.safetensors"
    stored = [file for file in home.mlflow.rglob("*") if file.suffix == ".safetensors"]
    assert stored
    assert all(file.samefile(ours) for file in stored)
    assert (ours.parent / "MLmodel").exists() is False  # training's own folder stays as it was
    big = [file for file in home.mlflow.rglob("*") if file.is_file() and file.stat().st_size > 1e6]
    assert {file.stat().st_ino for file in big if file.name != "mlflow.db"} == {ours.stat().st_ino}
    names = [file.name for file in home.mlflow.rglob("*")]
    assert "MLmodel" in names
    assert [name for name in names if name.endswith((".pkl", ".pickle", ".pt", ".bin"))] == []


def test_a_second_finish_registers_nothing_again(
    home: Home, settings: Settings, store: Store, finish: Finish
) -> None:
    run_id = finish(2.0)
    with open_run(home=home, settings=settings, name="again", resume=run_id):
        pass
    assert len(store.client.search_model_versions(f"name = '{NAME}'")) == 1
    assert len(store.client.search_logged_models([store.experiment_id])) == 1


def test_a_registry_that_fails_is_said_and_the_run_is_finished(
    store: Store, finish: Finish, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionError("the registry is gone")

    monkeypatch.setattr(registry, "_register_version", refuse)
    run = store.client.get_run(finish(2.0))
    assert run.info.status == "FINISHED"
    [line] = said
    assert "the run's model is not registered" in line
    assert "the registry is gone" in line


def test_an_upload_over_its_limit_is_said_and_the_checkpoint_pointed_to(
    home: Home, store: Store, finish: Finish, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = threading.Event()
    monkeypatch.setattr(artifacts, "local_path", lambda _uri: None)  # as behind a server
    monkeypatch.setattr(type(store.client), "log_artifacts", lambda *_: waiting.wait(60))
    began = time.monotonic()
    run = store.client.get_run(finish(2.0, upload_seconds=3.0))
    waiting.set()
    assert time.monotonic() - began < 50
    assert run.info.status == "FINISHED"
    checkpoint = home.run_folder(run.info.run_id) / "checkpoints" / "epoch-1"
    assert run.data.tags["twolevers.checkpoint"] == str(checkpoint)
    assert str(checkpoint) in run.data.tags["twolevers.not_stored"]
    assert "not done after 3 s" in said[-1]
    # What is not stored cannot be served.
    assert store.client.search_registered_models() == []


def test_clean_keeps_what_an_alias_holds_and_removes_the_rest_whole(
    home: Home, settings: Settings, store: Store, finish: Finish
) -> None:
    best, middle, newest = finish(1.0), finish(2.0), finish(3.0)
    plan = plan_clean(home, settings, older_than_days=None, keep_last=0)
    assert [item.run_id for item in plan.items] == [middle]
    clean(plan)
    for run_id, there in ((best, True), (middle, False), (newest, True)):
        stored = home.mlflow / "artifacts" / run_id / "artifacts" / "checkpoints" / "epoch-1"
        assert (stored / "model.safetensors").is_file() is there
    links = list((home.mlflow / "artifacts" / "models").glob("*/artifacts"))
    assert len(links) == 2
    assert all((link / "MLmodel").is_file() for link in links)


def test_the_model_answers_as_the_run_did_also_after_the_home_was_moved(
    home: Home,
    settings: Settings,
    store: Store,
    finish: Finish,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mlflow

    rows = [{"instruction": f"Say {n}.", "input": "x" * (n % 2), "output": "y"} for n in range(40)]
    path = tmp_path / "data.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    dataset = DatasetFile(
        name="data.json", path=path, sha256=sha256_of(path), num_bytes=1, verified="local file"
    )
    data = tokenise(dataset, OPTIONS.data, seed=1, home=home, progress=Silent())
    run_id = finish(2.0)
    wanted = read_answers(
        respond(
            "tuned",
            home.run_folder(run_id) / "checkpoints" / "epoch-1",
            data,
            OPTIONS.generation,
            config=None,
            device=find_device("cpu"),
            precision="float32",
            seed=OPTIONS.training.seed,
            output=tmp_path / "answers.jsonl",
            progress=Silent(),
        )
    )
    assert len({answer.model_response for answer in wanted}) > 1
    asked = [{"instruction": a.instruction, "input": a.input} for a in wanted]

    moved = home.root.rename(tmp_path / "moved")
    store = open_store(Home(moved), settings)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    monkeypatch.chdir(tmp_path)
    version = store.client.get_model_version_by_alias(NAME, "best")
    assert str(moved) in version.source
    model = mlflow.pyfunc.load_model(f"models:/{NAME}@best", model_config={"device": "cpu"})
    assert model.predict(asked) == [answer.model_response for answer in wanted]
    first = {"instruction": wanted[0].instruction, "input": wanted[0].input}
    assert model.predict(first) == [wanted[0].model_response]
    # A logged model is the same folder.
    [logged] = store.client.search_logged_models([store.experiment_id])
    again = mlflow.pyfunc.load_model(f"models:/{logged.model_id}", model_config={"device": "cpu"})
    assert again.predict(first) == [wanted[0].model_response]
    shorter = model.predict(first, params={"max_new_tokens": 1})
    assert wanted[0].model_response.startswith(shorter[0])
    assert model.metadata.signature.inputs.input_names() == ["instruction", "input"]
    assert set(model.input_example) == {"instruction", "input"}
    with pytest.raises(mlflow.exceptions.MlflowException, match="is empty"):
        model.predict({"instruction": " "})
