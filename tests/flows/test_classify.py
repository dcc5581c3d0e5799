"""The classification once, as a user runs it; then asked, shown, listed among the timings."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command import Command, wait_for
from prefect.utilities.callables import parameter_schema

from flows.classify import classify
from flows.classify_command import ask_classifier
from twolevers.classification.options import ClassifyOptions
from twolevers.embedded.messages import make_messages
from twolevers.errors import InputError
from twolevers.files import sha256_of
from twolevers.options import option_fields
from twolevers.report.again import report_again
from twolevers.run_times import run_times
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.queries import find_run, list_runs
from twolevers.tracking.runs import read_run_options
from twolevers.tracking.timings import list_timings

RECIPE = (
    "--dataset", "sms.tsv", "--train", "lora", "--epochs", "1", "--max-length", "16",
    "--cut", "keep both ends",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, server: str) -> Home:
    """A home with one classification in it: of 120 messages, tab-separated, 4 of 5 columns' names
    left to be guessed."""
    folder = tmp_path_factory.mktemp("home")
    rows = [f"{label}\t{text}" for label, text in make_messages()[:120]]
    (folder / "sms.tsv").write_text("\n".join(["Label\tSMS", *rows]), encoding="utf-8")
    command = Command(folder, {"PREFECT_API_URL": server})
    output = command.run("classify", *RECIPE)
    (folder / "output.txt").write_text(output, encoding="utf-8")
    return Home(folder)


@pytest.fixture
def here(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("TWOLEVERS_HOME", str(home.root))
    return home


def shown(capsys: pytest.CaptureFixture[str], *texts: str) -> Any:
    capsys.readouterr()
    ask_classifier("latest", texts, {}, True)
    return json.loads(capsys.readouterr().out)


def test_figures(here: Home, capsys: pytest.CaptureFixture[str]) -> None:
    summary = shown(capsys)
    assert (summary["task"], summary["status"]) == ("classification", "FINISHED")
    assert (summary["trained"], summary["labels"]) == ("lora", ["ham", "spam"])
    assert 0 < summary["num_trained"] < summary["num_parameters"]
    assert [*summary["scores"]] == ["train", "val", "test"]
    assert summary["scores"]["train"]["accuracy"] > summary["scores"]["train"]["majority_accuracy"]
    assert summary["data"]["num_cut"] > 0
    assert (summary["data"]["text_column"], summary["data"]["label_column"]) == ("SMS", "Label")
    for score in summary["scores"].values():
        assert all(0 <= score[n] <= 1 for n in ("accuracy", "macro_f1", "calibration_error"))
    output = (here.root / "output.txt").read_text(encoding="utf-8")
    for text in (
        "balanced accuracy",
        "accuracy of the most frequent label",
        "texts cut to 16 tokens: keep both ends",
        "published, not measured here",
        "gpt2-xl (1558M), all: test accuracy 0.9867",
        summary["mlflow_run_id"],
    ):
        assert text in output, text


def test_asked(here: Home, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = shown(capsys, "See you tonight", "word " * 40)
    assert set(first["probabilities"]) == {"ham", "spam"}
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert (first["was_cut"], second["was_cut"]) == (False, True)
    with pytest.raises(InputError, match="text 2: is empty"):
        ask_classifier("latest", ["a", " "], {}, True)
    with pytest.raises(InputError, match=r"--epochs 3: is of training"):
        ask_classifier("latest", ["a"], {"epochs": 3}, True)


def test_tracked_as_a_kind_of_its_own(here: Home) -> None:
    found = find_run("latest", here, Settings(), kind=names.CLASSIFY)
    assert found.folder is not None
    assert found.checkpoint is not None
    assert list_runs(here, Settings()).empty  # these are fine-tunings
    with pytest.raises(InputError, match="there is no run yet"):
        find_run("latest", here, Settings())
    with pytest.raises(InputError, match="classifies texts"):
        read_run_options(found.folder)
    assert (found.params["train"], found.params["cut"]) == ("lora", "keep both ends")
    assert found.tags[names.KIND] == "classify"
    assert found.metrics["final/test_accuracy"] >= 0
    rarest = min(Counter(label for label, _ in make_messages()[:120]).values())
    num_steps = int(2 * rarest * 0.7) // 8
    with sqlite3.connect(here.mlflow / "mlflow.db") as database:
        steps = database.execute("select count(*) from metrics where key = 'train/loss'").fetchone()
        inputs = database.execute("select count(*) from inputs where source_type = 'DATASET'")
        assert (steps, inputs.fetchone()) == ((num_steps,), (1,))
    [artifacts] = here.mlflow.rglob(f"{found.run_id}/artifacts")
    for name in (
        "report.html",
        "summary.json",
        "scores.json",
        "classification.json",
        "confusion.png",
        "reliability.png",
        "loss-curve.png",
        "checkpoints/epoch-1/head.safetensors",
    ):
        assert (artifacts / name).is_file(), name


def test_a_table_of_its_own(here: Home) -> None:
    timings = list_timings(here, Settings())
    [row] = timings.to_dict(orient="records")
    assert row["workload"]["task"] == "classification"
    assert row["workload"]["trained_parameters"] == "lora, rank 16"
    assert row["two_epoch_seconds"] > 0
    table = run_times(timings, row["fingerprint"])
    assert len(table.cells) == 1
    assert table.workload["epochs"] == 1


def test_form() -> None:
    """Every option has its field, and Run needs none of them filled in."""
    form = parameter_schema(classify).model_dump_for_openapi()
    assert "required" not in form
    groups = {
        name: form["definitions"][field["$ref"].removeprefix("#/definitions/")]["properties"]
        for name, field in form["properties"].items()
        if "$ref" in field
    }
    for group, name, _ in option_fields(ClassifyOptions):
        field = groups[group][name] if group else form["properties"][name]
        assert field["description"], name
    assert groups["training"]["train"]["enum"] == ["head", "last_block", "all", "lora"]
    assert groups["data"]["cut"]["enum"] == ["keep the start", "keep the end", "keep both ends"]
    assert form["properties"]["dataset"]["default"] == "messages"
    assert [*form["properties"]][-1] == "resume_from"


def test_page(here: Home) -> None:
    found = find_run("latest", here, Settings(), kind=names.CLASSIFY)
    written = Path(found.folder or "") / "report.html"
    page = written.read_text(encoding="utf-8")
    assert report_again(str(found.run_id), None, here, Settings()) == written
    assert written.read_text(encoding="utf-8") == page
    assert "Confusion matrix" in page
    assert "Published, not measured here" in page
    assert "--train &#34;lora&#34;" in page
    assert 'src="http' not in page


def trained(home: Home, run_id: str) -> tuple[list[str], list[tuple[int, float]]]:
    """Hashes of a run's classifier, and the loss of every step that it tracked."""
    folder = home.run_folder(run_id) / "checkpoints" / "epoch-1"
    bits = [sha256_of(folder / f"{part}.safetensors") for part in ("model", "head")]
    question = "select step, value from metrics where key = 'train/loss' and run_uuid = ?"
    with sqlite3.connect(home.mlflow / "mlflow.db") as database:
        return bits, sorted(database.execute(question, (run_id,)).fetchall())


def test_a_stopped_run_goes_on_to_the_same_classifier(home: Home, server: str) -> None:
    """Where its data came from need not be there any more. (The last test: its run is the latest.)

    Every step is followed by a long evaluation, so that the stop comes between two steps.
    """
    command = Command(home.root, {"PREFECT_API_URL": server})
    whole = str(find_run("latest", home, Settings(), kind=names.CLASSIFY).run_id)
    process = command.start("classify", *RECIPE, "--eval-every", "1", "--eval-batches", "50")
    wait_for(process, "step 1:")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert re.search(r"Stopped after \d of \d+ steps", err), err
    stopped = find_run("latest", home, Settings(), kind=names.CLASSIFY)
    run_id = str(stopped.run_id)
    assert f"Continue with: twolevers classify --resume {run_id}" in err
    assert stopped.status == "KILLED"
    assert f"twolevers classify --resume {run_id[:8]}" in command.run_here("show", run_id)

    (home.root / "sms.tsv").unlink()
    refused = command.run_here("classify", "--resume", "latest", "--batch-size", "4", status=2)
    assert "--batch-size 4: the run was started with 8" in refused
    refused = command.run_here("fine-tune", "--resume", run_id, status=2)
    assert f"go on with it: twolevers classify --resume {run_id[:8]}" in refused
    command.run("classify", "--resume", run_id[:8], "--eval-every", "50")
    resumed = find_run(run_id, home, Settings())
    assert (resumed.status, len(resumed.flow_run_ids)) == ("FINISHED", 2)
    assert resumed.tags[names.RESUMED].startswith("step-")
    assert trained(home, run_id) == trained(home, whole)
    assert [*list_timings(home, Settings())["run_id"]] == [whole], "its own time is no real one"
