"""The command `twolevers judge` over runs made by hand: no training, no Prefect server."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

import pytest
from ended_run import write_answers_of
from judge_server import Fault, JudgeServer
from typer.testing import CliRunner

from flows.cli import app
from flows.judge import judge
from twolevers.errors import InputError
from twolevers.evaluation.judge_options import JudgeOptions, judge_options_from
from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.queries import find_run
from twolevers.tracking.store import open_store


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, list[str]]:
    """Two finished runs with answers to the same six entries, and one without answers."""
    home = Home(tmp_path_factory.mktemp("home"))
    ids = []
    for name in ("one", "two", "none"):
        with open_run(home=home, settings=Settings(), name=name) as tracker:
            tracker.folder.mkdir(parents=True, exist_ok=True)
            if name != "none":
                for role in ("base", "tuned"):
                    write_answers_of(tracker.folder, role)
            if name == "two":
                file = tracker.folder / "responses-tuned.jsonl"
                file.write_text(
                    file.read_text(encoding="utf-8").replace('"no idea"', '"42"'), encoding="utf-8"
                )
            ids.append(tracker.run_id)
    return home, ids


@pytest.fixture(autouse=True)
def at_home(runs: tuple[Home, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOLEVERS_HOME", str(runs[0].root))
    monkeypatch.delenv("TWOLEVERS_JUDGE_KEY", raising=False)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer() as judge:
        yield judge


def test_one_run(
    runs: tuple[Home, list[str]], server: JudgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    home, (one, _, _) = runs
    told = ("--run", one[:8], "--judge-url", server.url, "--ask-twice", "2")
    ran = CliRunner().invoke(app, ["judge", *told])
    assert ran.exit_code == 0, ran.output
    out = ran.output
    # Of the six answers the base model has none right, the tuned Paris and dry.
    tuned = (2 * 100 + 4 * 20) / 6
    for text in ("20.00", f"{tuned:.2f}", "6 of 6 (100%)", f"{tuned - 20:+.2f}", one, "2 answers"):
        assert text in out
    assert "better 2, the same 4, worse 0" in out
    found = find_run(one, home, Settings())
    assert found.status == "FINISHED"
    of_judge = f"judge/{found.tags['twolevers.judge.name']}"
    assert of_judge.startswith("judge/llama3-")
    assert found.metrics[f"{of_judge}/tuned_mean"] == pytest.approx(tuned)
    assert found.metrics[f"{of_judge}/base_mean"] == 20
    assert found.metrics[f"{of_judge}/difference"] == pytest.approx(tuned - 20)
    assert found.metrics[f"{of_judge}/tuned_coverage"] == 1
    assert found.metrics[f"{of_judge}/spread"] == 0
    assert found.tags["twolevers.judge.model"] == "llama3"
    with sqlite3.connect(home.mlflow / "mlflow.db") as database:
        [(tables,)] = database.execute(
            "select value from tags where key = 'mlflow.loggedArtifacts' and run_uuid = ?", (one,)
        ).fetchall()
    [entry] = json.loads(tables)
    assert found.artifacts
    table = json.loads((found.artifacts / entry["path"]).read_text(encoding="utf-8"))
    scores = [row[table["columns"].index("tuned_score")] for row in table["data"]]
    assert scores == [100, 20, 20, 20, 100, 20]
    asked = len(server.questions)
    judge([one], JudgeOptions(url=server.url, ask_twice=2), as_json=True)
    assert json.loads(capsys.readouterr().out)["num_asked"] == 0
    assert len(server.questions) == asked


def test_one_that_was_stopped_displaces_no_whole_judgement(
    runs: tuple[Home, list[str]], server: JudgeServer
) -> None:
    home, (one, _, _) = runs
    whole = JudgeOptions(url=server.url, ask_twice=0)
    judge([one], whole, as_json=True)
    before = find_run(one, home, Settings())
    cut = JudgeOptions(url=server.url, ask_twice=0, seed=7, max_tokens=1, concurrency=1)
    judge([one], cut, as_json=True)
    after = find_run(one, home, Settings())
    assert after.metrics.items() > before.metrics.items()
    [other] = {name.split("/")[1] for name in after.metrics.keys() - before.metrics.keys()}
    assert after.metrics[f"judge/{other}/tuned_coverage"] < 1
    assert json.loads(after.tags["twolevers.judge.settings"])["seed"] == 123
    client = open_store(home, Settings()).client
    beside = client.search_runs(
        [client.get_run(one).info.experiment_id],
        f"tags.`twolevers.evaluation_of` = '{one}' and tags.`twolevers.role` = 'tuned'",
    )
    assert [run.data.metrics["judge/coverage"] for run in beside] == [1.0]


def test_two_runs(
    runs: tuple[Home, list[str]], server: JudgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second has one answer right that the first has not; equal answers are asked once."""
    home, (one, two, _) = runs

    def better(messages: list[dict[str, str]]) -> str:
        text = messages[0]["content"]
        if "<response A>" not in text:
            return "Score: 50"
        return "A" if "<response A>\n42\n" in text else "B"

    server.reply = better
    server.faults.append(Fault(status=422, body="extra field: seed"))
    url = f"{server.url}/v1"
    told = JudgeOptions(protocol="openai", model="llama3", url=url, ask_twice=0)
    judge([one, two], told, as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert list(result["sets"]) == [one[:8], two[:8]]
    assert result["preference"] == {
        "wins": 1, "ties": 5, "losses": 0, "flipped": 0, "num_unscored": 0,
    }  # fmt: skip
    assert (result["difference"]["ties"], result["difference"]["wins"]) == (6, 0)
    found = find_run(two, home, Settings())
    metrics, sent = found.metrics, json.loads(found.tags["twolevers.judge.settings"])
    assert (sent["temperature"], "seed" in sent) == (0, False)
    assert found.tags["twolevers.judge.left_out"] == "seed"
    [wins] = [name for name in metrics if name.endswith("preferred_wins")]
    assert wins.startswith(f"judge/against/{one[:8]}/llama3-")
    assert metrics[wins] == 1
    judge([one, two], told, as_json=False)
    out = capsys.readouterr().out
    assert f"{two[:8]} preferred" in out
    assert "1, neither 5 (of which 0 changed with the order)" in " ".join(out.split())


def test_a_bare_models_evaluation_against_a_run(
    runs: tuple[Home, list[str]], server: JudgeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has answers of the base model alone, one entry of which the run was not asked."""
    home, (one, _, _) = runs
    with open_run(home=home, settings=Settings(), name="bare", kind="evaluation") as tracker:
        tracker.folder.mkdir(parents=True, exist_ok=True)
        write_answers_of(tracker.folder, "base")
        file = tracker.folder / "responses-base.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines()
        other = json.dumps(json.loads(lines[0]) | {"instruction": "another"})
        file.write_text("\n".join([*lines[1:], other, ""]), encoding="utf-8")
    told = JudgeOptions(url=server.url, ask_twice=0)
    judge([tracker.run_id, one], told, as_json=True)
    sets = json.loads(capsys.readouterr().out)["sets"]
    assert list(sets) == [tracker.run_id[:8], one[:8]]
    assert [of_set["num_answers"] for of_set in sets.values()] == [5, 5]


def test_what_cannot_be_given_is_said_at_once() -> None:
    with pytest.raises(InputError) as raised:
        judge_options_from({"concurrency": "0", "judge": "llama", "judge_model": "x"})
    assert [problem.where for problem in raised.value.problems] == ["--judge", "--concurrency"]
    assert "--concurrency '0': input should be greater than or equal to 1" in str(raised.value)


def test_no_run_like_that(runs: tuple[Home, list[str]]) -> None:
    _, (one, _, none) = runs
    with pytest.raises(InputError, match="has no answers of the tuned model on this machine"):
        judge([none], JudgeOptions(), as_json=False)
    with pytest.raises(InputError, match="is the same run twice"):
        judge([one, one[:8]], JudgeOptions(), as_json=False)
    with pytest.raises(InputError, match="give one run, or two"):
        judge([one, one, one], JudgeOptions(), as_json=False)


def test_a_judge_that_scores_nothing_says_so_and_what_to_do(
    runs: tuple[Home, list[str]], server: JudgeServer
) -> None:
    server.reply = lambda messages: "[bold]I cannot say."
    told = ("--run", runs[1][0], "--judge-url", server.url, "--judge-seed", "9")
    said = CliRunner().invoke(app, ["judge", *told])
    assert said.exit_code == 0
    assert "a reply without a score" in said.output
    assert "[bold]I cannot say." in said.output
    assert "No reply held a score: name another --judge-model" in " ".join(said.output.split())
