"""The flow `run-time-table`: a fine-tune run a cell, and the others go on where one fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from command import Command
from prefect.utilities.callables import parameter_schema

from flows.run_time_table import run_time_table
from twolevers.device import find_device, find_precision
from twolevers.errors import InputError
from twolevers.grid import plan_grid
from twolevers.options import FineTuneOptions, TrainingOptions
from twolevers.records import DatasetFile
from twolevers.settings import Home

SCRIPT = Path(__file__).parent / "run_time_table_script.py"
NANO, SMALL = "gpt2-nano (7M)", "gpt2-small (124M)"


def test_cells_are_measured_once_and_what_fails_is_reported(
    command: Command, server: str, small_data: Path
) -> None:
    # No hub: the weights of gpt2-small are not to be had.
    command.env |= {"HF_HUB_OFFLINE": "1", "PREFECT_LOGGING_LEVEL": "CRITICAL"}
    asked: dict[str, Any] = {
        "models": ["124M", "gpt2-nano"],
        "devices": ["cpu", "auto", "cuda:7"],
        "dataset": str(small_data),
        "generation": {"max_new_tokens": 2},
    }
    with httpx.Client(base_url=server, trust_env=False) as api:
        once_more = asked | {"models": ["gpt2-nano"]}
        ran = command.run(json.dumps(asked), json.dumps(once_more), script=SCRIPT)
        first, second = ran.split()[-2:]
        assert api.get(f"/flow_runs/{first}").json()["state_type"] == "COMPLETED"
        children = children_of(api, first)
        ended = {name: state for name, (state, _) in children.items()}
        assert ended == {f"{NANO} on cpu": "COMPLETED", f"{SMALL} on cpu": "FAILED"}
        # A run's summary is found by its own flow run, the child.
        summary = command.summary(children[f"{NANO} on cpu"][1])
        text = table_of(api, first)
        seconds = f"{summary['two_epoch_seconds']:.1f} s (1 run)"
        cpu = find_device("cpu")
        hardware, precision = cpu.hardware, find_precision("auto", cpu)
        assert f"| {NANO} | {seconds} |" in text
        assert f"| {SMALL} |  |" in text
        assert f"| model | {hardware}, {summary['threads']} thread" in text
        assert f"{SMALL} on cpu in {precision}: HF_HUB_OFFLINE forbids" in text
        for model in (NANO, SMALL):
            assert f"{model} on cuda:7 in auto: device 'cuda:7': this machine has no such" in text

        tables = Home(command.home).mlflow.rglob("run-time-table.json")
        kept, _ = sorted(tables, key=lambda file: file.stat().st_mtime)
        columns = json.loads(kept.read_text(encoding="utf-8"))
        row = dict(zip(columns["columns"], columns["data"][0], strict=True))
        assert (row["model"], row["runs"]) == (NANO, 1)
        assert row["median_seconds"] == pytest.approx(summary["two_epoch_seconds"])
        assert {file.suffix for file in kept.parent.glob("run-time-table.*")} == {
            ".json",
            ".html",
            ".png",
        }

        assert children_of(api, second) == {}
        assert f"| {NANO} | {seconds} |" in table_of(api, second)
    assert command.statuses().count("FINISHED") == 1


def children_of(api: httpx.Client, flow_run: str) -> dict[str, tuple[str, str]]:
    """State and id of the flow runs below one, by their names."""
    wanted = {"flow_runs": {"parent_flow_run_id": {"any_": [flow_run]}}}
    found = api.post("/flow_runs/filter", json=wanted).json()
    return {child["name"]: (child["state_type"], child["id"]) for child in found}


def table_of(api: httpx.Client, flow_run: str) -> str:
    """The artifact that shows the table."""
    wanted = {"flow_runs": {"id": {"any_": [flow_run]}}}
    found = api.post("/artifacts/filter", json=wanted).json()
    by_key: dict[str, str] = {artifact["key"]: artifact["data"] for artifact in found}
    assert {"run-time-table", "run-time-table-cells"} <= {*by_key}
    return by_key["run-time-table"]


def test_the_form_lists_models_and_devices() -> None:
    fields = parameter_schema(run_time_table).model_dump_for_openapi()["properties"]
    assert fields["models"]["type"] == "array"
    assert fields["models"]["items"]["enum"][:2] == ["from settings", NANO]
    assert fields["devices"]["items"]["enum"][1:3] == ["auto", find_device("auto").name]
    assert fields["precisions"]["items"]["enum"][0] == "auto"
    assert fields["runs_per_cell"]["minimum"] == 1


def test_what_means_nothing_is_refused_whole(tmp_path: Path) -> None:
    data = DatasetFile(
        name="d", path=tmp_path / "d.json", sha256="ab" * 32, num_bytes=1, verified="local file"
    )
    with pytest.raises(InputError) as refused:
        plan_grid(
            FineTuneOptions(training=TrainingOptions(epochs=3)),
            data,
            models=["gpt2-huge"],
            devices=["gpu0"],
            precisions=[],
            weights={"gpt2-tiny": "/w"},
        )
    text = str(refused.value)
    for part in ("--epochs 3", "'gpt2-huge'", "'gpu0'", "'gpt2-tiny'", "precisions: none is given"):
        assert part in text
