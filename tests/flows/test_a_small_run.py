"""One small run: what it leaves in Prefect's UI, read over the API, as the UI reads it; and the
same once more: by `rerun`, and stopped and continued."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from command import Command, wait_for

from flows.running import Record, Running, now, up_lock, write_record
from tasks import artifacts
from twolevers.embedded import DATASET_PATH
from twolevers.settings import Home, Settings
from twolevers.tracking.queries import find_run

RERUN = Path(__file__).parent / "rerun_script.py"
UI = "http://127.0.0.1:4200"
RECIPE = ("--epochs", "2", "--eval-every", "2", "--dropout", "0.1", "--max-new-tokens", "4")


class Healthy(BaseHTTPRequestHandler):
    """A server that says that it is well, as MLflow's does."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def mlflow_server() -> Iterator[str]:
    """Something that answers where `twolevers up` would have MLflow's server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def done(
    tmp_path_factory: pytest.TempPathFactory, server: str, mlflow_server: str
) -> tuple[Command, dict[str, Any]]:
    """One run through the command, and its artifacts by key."""
    folder = tmp_path_factory.mktemp("home")
    home, data = Home(folder), folder / "small.json"
    entries = json.loads(DATASET_PATH.read_text(encoding="utf-8"))[:60]
    data.write_text(json.dumps(entries), encoding="utf-8")
    command = Command(folder, {"PREFECT_API_URL": server, "PREFECT_UI_URL": UI})
    home.prefect.mkdir()
    running = {"MLflow": Running(pid=os.getpid(), since=now(), address=mlflow_server)}
    with up_lock(home):
        write_record(home, Record(pid=os.getpid(), since=now(), running=running))
        command.run("fine-tune", "--dataset", "small.json", *RECIPE)
    return command, read_artifacts(server, command.summary()["prefect_flow_run_id"])


def read_artifacts(server: str, flow_run: str) -> dict[str, Any]:
    """A flow run's artifacts by key; each is there once."""
    wanted = {"flow_runs": {"id": {"any_": [flow_run]}}}
    found = httpx.post(f"{server}/artifacts/filter", json=wanted, trust_env=False).json()
    artifacts = {artifact["key"]: artifact for artifact in found}
    assert len(artifacts) == len(found)
    return artifacts


def test_progress_ends_at_100(done: tuple[Command, dict[str, Any]]) -> None:
    progress = done[1]["fine-tune-progress"]
    assert progress["type"] == "progress"
    assert float(progress["data"]) == 100
    first, _, noted = progress["description"].partition("\n\n")
    assert first.startswith("12 of 12 steps, loss ")
    assert first.endswith(" tokens/s")
    assert noted.startswith("step 11: train ")  # the last evaluation


def test_summary_tells_what_came_out(done: tuple[Command, dict[str, Any]]) -> None:
    command, artifacts = done
    summary, text = command.summary(), artifacts["fine-tune-summary"]["data"]
    seconds = summary["two_epoch_seconds"]
    minutes, rest = divmod(round(seconds), 60)
    for figure in (
        summary["model"],
        summary["hardware"],
        summary["precision"],
        f"two epochs: {seconds:.1f} s" if seconds < 60 else f"{minutes} min {rest:02d} s",
        f"{summary['tokens_per_second']:,.0f} tokens/s",
        f"{summary['val_loss_before']:.3f} → {summary['val_loss_after']:.3f}",
        f"| validation loss | {summary['base']['val_loss']:.3f} | "
        f"{summary['tuned']['val_loss']:.3f} |",
    ):
        assert figure in text


def test_scores_are_the_summarys(done: tuple[Command, dict[str, Any]]) -> None:
    command, artifacts = done
    summary = command.summary()
    rows = {row["score"]: row for row in json.loads(artifacts["fine-tune-scores"]["data"])}
    assert [*rows] == ["validation loss", "exact match", "token F1", "ROUGE-L", "chrF"]
    for label, name in (("validation loss", "val_loss"), ("chrF", "chrf"), ("ROUGE-L", "rouge_l")):
        base, tuned = summary["base"][name], summary["tuned"][name]
        found = rows[label]
        assert found["base"] == pytest.approx(base, abs=1e-4)
        assert found["tuned"] == pytest.approx(tuned, abs=1e-4)
        assert found["change"] == pytest.approx(tuned - base, abs=1e-4)
    kinds = json.loads(artifacts["fine-tune-scores-by-kind"]["data"])
    by_kind = summary["tuned"]["by_kind"]
    assert {row["kind of task"]: row["entries"] for row in kinds} == {
        kind: scores["count"] for kind, scores in by_kind.items()
    }


def test_results_are_small(done: tuple[Command, dict[str, Any]]) -> None:
    """Paths and figures stay with Prefect, for a retry; what they are of lies in the run."""
    kept = [file for file in (done[0].home / ".prefect" / "results").rglob("*") if file.is_file()]
    assert len(kept) >= 8, "one a stage"
    assert max(file.stat().st_size for file in kept) < 10_000
    for file in kept:
        json.loads(file.read_text(encoding="utf-8"))


def test_loss_curve_is_a_picture(done: tuple[Command, dict[str, Any]]) -> None:
    command, artifacts = done
    drawn = artifacts["fine-tune-loss-curve"]["data"].partition("base64,")[2].rstrip(")")
    run_id = command.summary()["mlflow_run_id"]
    assert (
        base64.b64decode(drawn) == (command.home / "runs" / run_id / "loss-curve.png").read_bytes()
    )


def test_both_runs_link_to_each_other(
    done: tuple[Command, dict[str, Any]], mlflow_server: str
) -> None:
    command, artifacts = done
    summary = command.summary()
    tracked = find_run("latest", Home(command.home), Settings())
    link = artifacts["fine-tune-mlflow-run"]["data"]
    page = link.removeprefix("[run in MLflow](").removesuffix(")")
    assert page.startswith(f"{mlflow_server}/#/experiments/")
    assert page.endswith(f"/runs/{summary['mlflow_run_id']}?workflowType=machine_learning")
    assert link in artifacts["fine-tune-summary"]["data"]
    back = f"{UI}/runs/flow-run/{summary['prefect_flow_run_id']}"
    assert tracked.tags["prefect.flow_run_url"] == back
    assert f"]({back})" in tracked.tags["mlflow.note.content"]


def test_a_rerun_shows_the_comparison(done: tuple[Command, dict[str, Any]], server: str) -> None:
    command, _ = done
    before = command.summary()
    artifacts = read_artifacts(server, command.run(script=RERUN).split()[-1])
    text, loss = artifacts["rerun-comparison"]["data"], before["val_loss_after"]
    assert before["mlflow_run_id"] in text
    assert "**identical, to the bit**" in text
    assert f"| val loss after | {loss:.6f} | {loss:.6f} | the same |" in text
    assert {"fine-tune-summary", "fine-tune-scores", "fine-tune-progress"} < {*artifacts}


def test_a_stopped_run_ends_with_the_same_bits(done: tuple[Command, dict[str, Any]]) -> None:
    """(What `kill -9` leaves is tested where it matters: bits in tests/training, status in
    tests/tracking.)"""
    command, before = done[0], done[0].statuses()
    undisturbed = weights_hash(command)
    process = command.start("fine-tune", "--dataset", "small.json", *RECIPE)
    wait_for(process, "step 2:")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert "twolevers fine-tune --resume " in err
    stopped = command.summary()
    assert stopped["status"] == "KILLED"
    assert stopped["two_epoch_seconds"] is None
    assert Path(stopped["checkpoint"]).name.startswith(("step-", "epoch-1"))
    refused = command.run_here("fine-tune", "--resume", "latest", "--batch-size", "4", status=2)
    assert "--batch-size" in refused
    command.run("fine-tune", "--resume", stopped["mlflow_run_id"])
    resumed = command.summary(stopped["mlflow_run_id"])
    assert resumed["status"] == "FINISHED"
    assert resumed["two_epoch_seconds"] is None
    assert weights_hash(command) == undisturbed
    assert command.statuses() == ["FINISHED", *before]


def weights_hash(command: Command) -> str:
    """Of the newest run's checkpoint."""
    checkpoint = Path(command.summary()["checkpoint"])
    return hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()


def test_a_server_that_hangs_does_not_hold_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    release = threading.Event()
    logger = SimpleNamespace(warning=lambda text, *rest: said.append(text % rest))
    monkeypatch.setattr(artifacts, "SHOW_SECONDS", 0.1)
    monkeypatch.setattr(artifacts, "get_run_logger", lambda: logger)
    monkeypatch.setattr(artifacts, "create_markdown_artifact", lambda *_: release.wait(60))
    began = time.monotonic()
    artifacts.show_comparison(SimpleNamespace(markdown="all the same"))  # type: ignore[arg-type]
    assert time.monotonic() - began < 30
    release.set()
    assert len(said) == 1
    assert said[0].startswith("The comparison cannot be shown in Prefect: TimeoutError")
