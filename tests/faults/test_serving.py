"""Registered models behind MLflow's own servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from helpers import TINY, write_random_weights

from twolevers.files import write_json
from twolevers.fingerprint import fingerprint_parts
from twolevers.options import FineTuneOptions
from twolevers.plan import flat_options
from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import open_store

SECONDS = 240
NAME = "twolevers-gpt2-nano"
QUESTION = {"instruction": "What is the opposite of full?", "input": ""}


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(
    command: list[str], port: int, folder: Path, environment: dict[str, str]
) -> Iterator[httpx.Client]:
    """A server of MLflow's in a process of its own, from when it answers."""
    log = folder / "log"
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    try:
        address = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            deadline = time.monotonic() + SECONDS
            while not _answers(client):
                if time.monotonic() > deadline or server.poll() is not None:
                    pytest.fail(log.read_text(encoding="utf-8"))
                time.sleep(0.2)
            yield client
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.HTTPError:
        return False


def finished_run(home: Home, settings: Settings) -> str:
    """A run of one epoch with a model of random weights; its id."""
    options = FineTuneOptions.model_validate(
        {"model": "gpt2-nano (8M)", "device": "cpu", "precision": "float32"}
    )
    params = flat_options(options)
    with open_run(home=home, settings=settings, name="a run", params=params) as tracker:
        write_json(tracker.folder / "options.json", options.model_dump(mode="json"))
        folder = write_random_weights(tracker.folder / "checkpoints" / "epoch-1", TINY)
        parts = fingerprint_parts(options, "a" * 64)
        tracker.set_tags({"twolevers.workload": json.dumps(parts)})
        tracker.log_metrics({"val/epoch_loss": 2.0}, step=1)
        tracker.log_checkpoint(folder, step=1, metrics={"val/epoch_loss": 2.0})
    return tracker.run_id


def test_the_best_model_is_served_by_its_alias(home: Home, tmp_path: Path, port: int) -> None:
    finished_run(home, Settings())
    # MLflow calls `uvicorn` by name: it is on the path where the environment is activated.
    uvicorn = tmp_path / "bin" / "uvicorn"
    uvicorn.parent.mkdir()
    uvicorn.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m uvicorn "$@"\n', encoding="utf-8")
    uvicorn.chmod(0o755)
    environment = {
        "MLFLOW_TRACKING_URI": open_store(home, Settings()).uri,
        "PATH": f"{uvicorn.parent}{os.pathsep}{os.environ['PATH']}",
    }
    command = ["models", "serve", "--env-manager", "local", "-m", f"models:/{NAME}@best"]
    with served(command, port, tmp_path, environment) as client:
        plain = client.post("/invocations", json={**QUESTION, "max_new_tokens": 4})
        assert plain.status_code == 200, plain.text
        [answer] = plain.json()
        wrapped = {"dataframe_records": [QUESTION, QUESTION], "params": {"max_new_tokens": 4}}
        table = client.post("/invocations", json=wrapped)
        assert table.json() == {"predictions": [answer, answer]}
        example = home.mlflow.rglob("serving_input_example.json")
        asked = json.loads(next(example).read_text(encoding="utf-8"))
        asked["params"] = {"max_new_tokens": 1}
        assert client.post("/invocations", json=asked).status_code == 200
        empty = client.post("/invocations", json={**QUESTION, "instruction": ""})
        assert empty.status_code == 400
        assert "say what to do" in empty.text


def test_behind_a_server_weights_are_stored_once_too(
    home: Home, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    stored = tmp_path / "stored"
    command = ["server", "--backend-store-uri", f"sqlite:///{tmp_path / 'team.db'}"]
    command += ["--artifacts-destination", str(stored), "--workers", "1"]
    with served(command, port, tmp_path, {}):
        settings = Settings(tracking_uri=f"http://127.0.0.1:{port}")
        run_id = finished_run(home, settings)
        client = open_store(home, settings).client
        assert client.get_run(run_id).data.tags["twolevers.registered"] == (
            f"{NAME} version 1 (newest, best)"
        )
        assert [file.parent.name for file in stored.rglob("*.safetensors")] == ["epoch-1"]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", settings.tracking_uri or "")
        model = mlflow.pyfunc.load_model(f"models:/{NAME}@best", model_config={"device": "cpu"})
        [answer] = model.predict(QUESTION, params={"max_new_tokens": 4})
        assert isinstance(answer, str)
