"""A registered model served by MLflow's own command, and asked over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
from helpers import TINY, write_random_weights

from twolevers.files import write_json
from twolevers.options import FineTuneOptions
from twolevers.plan import flat_options
from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import open_store

SECONDS = 240
QUESTION = {"instruction": "What is the opposite of full?", "input": ""}


def test_the_best_model_is_served_by_its_alias(home: Home, tmp_path: Path) -> None:
    options = FineTuneOptions.model_validate(
        {"model": "gpt2-nano (8M)", "device": "cpu", "precision": "float32"}
    )
    params = flat_options(options) | {"max_new_tokens": 4}
    with open_run(home=home, settings=Settings(), name="a run", params=params) as tracker:
        write_json(tracker.folder / "options.json", options.model_dump(mode="json"))
        folder = write_random_weights(tracker.folder / "checkpoints" / "epoch-1", TINY)
        tracker.log_checkpoint(folder, step=1, metrics={"val/epoch_loss": 2.0})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # MLflow calls `uvicorn` by name: it is on the path where the environment is activated.
    uvicorn = tmp_path / "bin" / "uvicorn"
    uvicorn.parent.mkdir()
    uvicorn.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m uvicorn "$@"\n', encoding="utf-8")
    uvicorn.chmod(0o755)
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": open_store(home, Settings()).uri,
        "PATH": f"{uvicorn.parent}{os.pathsep}{os.environ['PATH']}",
    }
    log = tmp_path / "log"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local"]
    command += ["-m", "models:/twolevers-gpt2-nano@best", "--port", str(port)]
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            cwd=tmp_path,
            start_new_session=True,
            env=environment,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            _wait_until_it_answers(client, server, log)
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
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _wait_until_it_answers(
    client: httpx.Client, server: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if client.get("/ping").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text(encoding="utf-8"))
