"""A retry of the same flow run takes finished stages from their results; a rerun trains again."""

from __future__ import annotations

import json
from pathlib import Path

from command import Command

SCRIPT = Path(__file__).parent / "retry_script.py"


def test_retry_continues_at_the_stage_that_failed(command: Command, small_data: Path) -> None:
    command.env["PREFECT_LOGGING_LEVEL"] = "CRITICAL"
    process = command.start(str(small_data), script=SCRIPT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    first, second, last = result["calls"]
    done = {"fetch_dataset_file": 1, "fetch_weights_folder": 1, "fine_tune": 1}
    assert first == {**done, "tokenise_dataset": 1, "respond": 1}
    assert second == {**done, "tokenise_dataset": 1, "respond": 2}
    # Its files had vanished: run again, not failed; then the base and the tuned model answer.
    assert last == {**done, "tokenise_dataset": 2, "respond": 4}
    assert command.statuses() == ["FINISHED"]
    assert command.summary()["mlflow_run_id"] == result["run"]
