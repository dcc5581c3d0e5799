"""A retry of the same flow run takes finished stages from their results; a rerun trains again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Command

SCRIPT = Path(__file__).parent / "retry_script.py"


@pytest.mark.parametrize(("what", "tokenised"), [((), 1), (("vanish",), 2)])
def test_retry_continues_at_the_stage_that_failed(
    command: Command, small_data: Path, what: tuple[str, ...], tokenised: int
) -> None:
    command.env["PREFECT_LOGGING_LEVEL"] = "CRITICAL"
    process = command.start(str(small_data), *what, script=SCRIPT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    assert result["calls"] == {
        "fetch_dataset_file": 1,
        "fetch_weights_folder": 1,
        "tokenise_dataset": tokenised,  # again where its files have vanished, never a failure
        "fine_tune": 1,
        "respond": 3,  # the failed call, then base and tuned
    }
    assert command.statuses() == ["FINISHED"]
    assert command.summary()["mlflow_run_id"] == result["run"]
