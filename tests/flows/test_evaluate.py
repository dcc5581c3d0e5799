"""`twolevers evaluate`: a run's model scored and judged again, and what else can be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command import Command
from judge_server import Fault, JudgeServer
from prefect import Flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.deploy import deployments
from flows.evaluate import evaluate
from twolevers.data.fetch import fetch_dataset
from twolevers.data.tokenise import tokenise
from twolevers.embedded import DATASET_PATH, NANO_PATH
from twolevers.errors import InputError, TwoleversError
from twolevers.evaluation.judge_options import JudgeOptions
from twolevers.evaluation.seen import num_trained_on
from twolevers.files import write_json
from twolevers.models.fetch import fetch_weights
from twolevers.options import DataOptions, GenerationOptions, build_options
from twolevers.plan import make_plan
from twolevers.progress import Silent
from twolevers.records import FineTuneRun
from twolevers.settings import Home, Settings
from twolevers.tracking.evaluated import find_evaluated
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.queries import find_run, list_runs
from twolevers.tracking.runs import note_inputs


@pytest.fixture
def judging() -> Iterator[JudgeServer]:
    with JudgeServer() as judge:
        yield judge


@dataclass
class Trained:
    run_id: str
    checkpoint: Path
    home: Home


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run as training leaves it, its checkpoint the shipped model."""
    home = Home(tmp_path_factory.mktemp("home"))
    file = home.root / "data.json"
    write_json(file, json.loads(DATASET_PATH.read_text(encoding="utf-8"))[:60])
    how = {"prompt_style": "phi3", "max_new_tokens": 9, "device": "cpu"}
    asked = build_options({"model": "gpt2-nano", "dataset": str(file), **how}, {})
    options = make_plan(asked, Settings()).options
    with open_run(home=home, settings=Settings(), name="trained") as tracker:
        folder = tracker.folder
        run = FineTuneRun(
            run_id=tracker.run_id, flow_run_id=None, resumed=False, folder=folder,
            options=options, hardware="a CPU", threads=1,
        )  # fmt: skip
        write_json(folder / "options.json", options.model_dump(mode="json"))
        dataset = fetch_dataset(str(file), home, Silent())
        data = tokenise(dataset, options.data, seed=1, home=home, progress=Silent())
        weights = fetch_weights(options.model, None, home, Silent())
        note_inputs(tracker, run, dataset, weights, data)
        checkpoint = folder / "checkpoints" / "epoch-2"
        shutil.copytree(NANO_PATH, checkpoint)
        tracker.log_checkpoint(checkpoint, step=1, metrics={})
    return Trained(tracker.run_id, checkpoint, home)


@pytest.fixture
def trained(a_run: Trained, monkeypatch: pytest.MonkeyPatch) -> Trained:
    """That run, in the home of this test."""
    monkeypatch.setenv("TWOLEVERS_HOME", str(a_run.home.root))
    return a_run


def test_a_runs_model_is_scored_and_judged(
    trained: Trained, server: str, judging: JudgeServer
) -> None:
    """As a user asks for it; the run itself stays as it was."""
    before = find_run(trained.run_id, trained.home, Settings())
    command = Command(trained.home.root, {"PREFECT_API_URL": server})
    told = ("--device", "cpu", "--max-new-tokens", "4", "--ask-twice", "0")
    found = command.json("evaluate", trained.run_id[:8], *told, "--judge-url", judging.url)
    scores = found["scores"]
    assert (scores["role"], scores["num_scored"]) == ("tuned", 6)
    assert scores["other"]["never_ended"] > 0  # four tokens are few
    assert found["judge"]["sets"]["tuned"]["num_scored"] == 6
    assert 0 < len(judging.questions) <= 6
    run = find_run(found["mlflow_run_id"], trained.home, Settings())
    assert run.status == "FINISHED"
    assert run.tags["twolevers.kind"] == "evaluation"
    assert run.tags["twolevers.evaluation_of"] == trained.run_id
    assert run.metrics["tuned/test_loss"] == pytest.approx(scores["test_loss"])
    judge = run.tags["twolevers.judge.name"]
    assert (
        run.metrics[f"judge/{judge}/tuned_mean"] == found["judge"]["sets"]["tuned"]["mean"]["mean"]
    )
    assert run.artifacts
    table = json.loads((run.artifacts / "responses.json").read_text(encoding="utf-8"))
    assert len(table["data"]) == 6
    assert command.statuses() == ["FINISHED"]  # no second fine-tuning: it trained nothing
    assert find_run(trained.run_id, trained.home, Settings()) == before


def test_scores_are_kept_where_the_judge_fails(
    trained: Trained, server: str, judging: JudgeServer
) -> None:
    """A judge that is not there is seen before anything is done; one that goes is not."""
    told = {"device": "cpu", "generation": GenerationOptions(max_new_tokens=2)}
    judge = JudgeOptions(url=judging.url, ask_twice=0, concurrency=1, seed=7)

    def evaluations() -> list[str]:
        return list(list_runs(trained.home, Settings(), kinds=["evaluation"])["run_id"])

    before = evaluations()
    with temporary_settings({PREFECT_API_URL: server}):
        with pytest.raises(InputError, match="--judge-model 'llama9'"):
            evaluate(trained.run_id, judge=judge.model_copy(update={"model": "llama9"}), **told)
        assert evaluations() == before
        judging.faults.extend([Fault(), Fault(), *[Fault(status=403, body="no")] * 9])
        with pytest.raises(TwoleversError, match="2 judgements are kept"):
            evaluate(trained.run_id, judge=judge, **told)
    [new] = set(evaluations()) - set(before)
    run = find_run(new, trained.home, Settings())
    assert run.status == "FAILED"
    assert run.folder
    kept = json.loads((run.folder / "evaluation.json").read_text(encoding="utf-8"))
    assert (kept["scores"]["num_scored"], kept["judge"]) == (6, None)
    assert run.metrics["tuned/test_loss"] == pytest.approx(kept["scores"]["test_loss"])


def test_a_run_is_asked_as_it_was(trained: Trained) -> None:
    found = find_evaluated("latest", device="cpu", precision="auto")
    assert (found.role, found.run_id) == ("tuned", trained.run_id)
    assert found.options.weights == str(trained.checkpoint)
    assert found.options.data.prompt_style == "phi3"
    assert found.options.generation.max_new_tokens == 9
    assert found.data
    assert found.data.path == trained.checkpoint.parents[1] / "data"
    assert found.data.num_test == 6


def test_only_what_is_given_is_changed(trained: Trained, small_data: Path) -> None:
    found = find_evaluated(
        trained.run_id[:8],
        device="cpu",
        precision="float32",
        dataset=str(small_data),
        data=DataOptions(max_length=99),
        generation=GenerationOptions(top_k=5, temperature=1.0),
    )
    assert found.data is None  # other data: it is tokenised anew
    assert found.options.dataset == str(small_data)
    assert (found.options.data.prompt_style, found.options.data.max_length) == ("phi3", 99)
    assert (found.options.generation.top_k, found.options.generation.max_new_tokens) == (5, 9)


@pytest.mark.parametrize(
    ("dataset", "asked", "scored"),
    [
        (None, "auto", "test"),
        ("its own", "auto", "test"),
        ("chapter7", "auto", "test"),
        ("held-out.json", "auto", "all"),
        ("held-out.json", "test", "test"),
        (None, "train", "train"),
    ],
)
def test_what_of_the_data_is_scored(
    trained: Trained, tmp_path: Path, dataset: str | None, asked: str, scored: str
) -> None:
    """A file of questions that nobody trained on is scored as a whole, even one of one entry."""
    own = str(trained.home.root / "data.json")
    (tmp_path / "held-out.json").write_text('[{"instruction": "a", "output": "b"}]')
    names = {"its own": own, "held-out.json": str(tmp_path / "held-out.json")}
    given = names.get(dataset or "", dataset)
    for model in ("latest", "gpt2-nano"):
        found = find_evaluated(
            model, device="cpu", precision="auto", dataset=given, eval_split=asked
        )
        other = model == "gpt2-nano" and dataset == "its own"  # of no run
        assert found.split == ("all" if other else scored)
        assert found.whole == (found.split == "all")
        assert found.trained_on is None or model == "latest"


def test_a_split_that_there_is_not(trained: Trained) -> None:
    with pytest.raises(InputError, match="--eval-split 'tests': no such split; choose one of"):
        find_evaluated("latest", device="cpu", precision="auto", eval_split="tests")


def test_entries_that_were_trained_on_are_counted(trained: Trained, tmp_path: Path) -> None:
    entries = json.loads((trained.home.root / "data.json").read_text(encoding="utf-8"))
    other = {**entries[1], "output": "another"}
    held_out = [entries[0], other, entries[-1], entries[0]]  # the first 51 were trained on
    path = tmp_path / "held-out.json"
    path.write_text(json.dumps(held_out), encoding="utf-8")
    dataset = fetch_dataset(str(path), trained.home, Silent())
    options = DataOptions()
    data = tokenise(dataset, options, seed=1, home=trained.home, progress=Silent(), whole=True)
    trained_on = find_evaluated("latest", device="cpu", precision="auto").trained_on
    assert trained_on
    assert num_trained_on(trained_on, data, "all") == 2
    assert num_trained_on(trained_on, trained_on, "test") == 0
    assert num_trained_on(trained_on, trained_on, "all") == 51


def test_a_bare_model(trained: Trained) -> None:
    found = find_evaluated("gpt2-nano", device="cpu", precision="auto")
    assert (found.role, found.run_id, found.data) == ("base", None, None)
    assert found.options.weights is None


def test_a_checkpoint_of_no_run(trained: Trained, tmp_path: Path) -> None:
    copied = tmp_path / "mine"
    shutil.copytree(NANO_PATH, copied)
    found = find_evaluated(str(copied), device="cpu", precision="auto")
    assert (found.role, found.run_id, found.data) == ("tuned", None, None)
    assert found.options.model == "gpt2-nano (7M)"
    assert found.options.dataset == "embedded"
    config = json.loads((copied / "config.json").read_text(encoding="utf-8"))
    (copied / "config.json").write_text(json.dumps(config | {"n_layer": 3}), encoding="utf-8")
    with pytest.raises(InputError, match="has the sizes of no model here"):
        find_evaluated(str(copied), device="cpu", precision="auto")


def test_what_there_is_not_is_said_with_what_there_is(trained: Trained) -> None:
    with pytest.raises(InputError) as raised:
        find_evaluated("gpt2-smal", device="cpu", precision="auto")
    assert "no run has this id" in str(raised.value)
    assert "did you mean 'gpt2-small'" in str(raised.value)
    with pytest.raises(InputError, match=r"--weights .* has its own"):
        find_evaluated("latest", device="cpu", precision="auto", weights=str(DATASET_PATH))
    with pytest.raises(InputError, match="device"):
        find_evaluated("gpt2-nano", device="tpu", precision="auto")


@pytest.mark.parametrize("deployment", deployments(), ids=lambda one: one["name"])
def test_what_is_deployed_takes_the_parameters_it_is_given(deployment: dict[str, Any]) -> None:
    file, _, name = deployment["entrypoint"].partition(":")
    flow = getattr(import_module(file.removesuffix(".py").replace("/", ".")), name)
    assert isinstance(flow, Flow)
    assert flow.validate_parameters(deployment.get("parameters", {})) is not None
