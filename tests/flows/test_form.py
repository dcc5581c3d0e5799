"""The form of the deployment `fine-tune`: what a user finds in it, and what it refuses."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from command import Command
from prefect.utilities.callables import parameter_schema

from flows.fine_tune import fine_tune
from twolevers.choices import choices
from twolevers.device import Device, find_device
from twolevers.options import option_fields

SCRIPT = Path(__file__).parent / "refused_script.py"
FORM: dict[str, Any] = parameter_schema(fine_tune).model_dump_for_openapi()
"""As a deployment gets it."""
UNITS = {
    "max_length": "tokens", "epochs": "epochs", "batch_size": "entries",
    "gradient_accumulation_steps": "batches", "warmup_steps": "steps",
    "dropout": "probability", "eval_every": "steps", "eval_batches": "batches",
    "checkpoint_every": "steps", "max_new_tokens": "tokens", "top_k": "tokens",
    "top_p": "probability", "generation_batch_size": "prompts", "threads": "threads",
    "keep_checkpoints": "checkpoints",
}  # fmt: skip
KEYS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
NO_UNIT = {"learning_rate", "weight_decay", "gradient_clip", "seed", "temperature"}
BOUNDS = {
    "max_length": {"minimum": 2}, "epochs": {"minimum": 1}, "batch_size": {"minimum": 1},
    "gradient_accumulation_steps": {"minimum": 1}, "learning_rate": {"exclusiveMinimum": 0},
    "weight_decay": {"minimum": 0}, "warmup_steps": {"minimum": 0},
    "gradient_clip": {"exclusiveMinimum": 0}, "dropout": {"minimum": 0, "exclusiveMaximum": 1},
    "eval_every": {"minimum": 1}, "eval_batches": {"minimum": 1},
    "checkpoint_every": {"minimum": 1}, "seed": {"minimum": 0, "exclusiveMaximum": 2**32},
    "max_new_tokens": {"minimum": 1}, "temperature": {"minimum": 0}, "top_k": {"minimum": 1},
    "top_p": {"exclusiveMinimum": 0, "maximum": 1}, "generation_batch_size": {"minimum": 1},
    "threads": {"minimum": 1}, "keep_checkpoints": {"minimum": 1},
}  # fmt: skip


def field(group: str | None, name: str) -> dict[str, Any]:
    """An option's field, wherever it stands in the form."""
    if group is None:
        return FORM["properties"][name]
    box = FORM["properties"][group]["$ref"].removeprefix("#/definitions/")
    return FORM["definitions"][box]["properties"][name]


FIELDS = {name: field(group, name) for group, name, _ in option_fields()}


def types(schema: dict[str, Any]) -> set[str]:
    return {part["type"] for part in schema.get("anyOf", [schema])}


def test_every_option_has_its_field() -> None:
    assert [*FORM["properties"]] == [
        "model", "device", "precision", "dataset", "weights",
        "data", "training", "generation", "run", "resume_from",
    ]  # fmt: skip
    assert "required" not in FORM  # Run needs no field filled in
    for name, schema in FIELDS.items():
        assert schema["title"] == name
        assert schema["description"], name
        assert "default" in schema, name
        assert len(types(schema) - {"null"}) == 1, name


@pytest.mark.parametrize("box", [FORM, *FORM["definitions"].values()], ids=lambda box: box["title"])
def test_fields_keep_their_order(box: dict[str, Any]) -> None:
    positions = [schema["position"] for schema in box["properties"].values()]
    assert all(one < next_one for one, next_one in pairwise(positions))


def test_models_in_order_of_size() -> None:
    model = FIELDS["model"]
    assert model["enum"][0] == model["default"] == "from settings"
    assert model["enum"][1].startswith("gpt2-nano (")
    assert model["enum"][2:] == [
        "gpt2-small (124M)", "gpt2-medium (355M)", "gpt2-large (774M)", "gpt2-xl (1558M)",
    ]  # fmt: skip
    for name in model["enum"]:
        assert f"`{name}`" in model["description"]


def test_devices_with_this_machines_first() -> None:
    device = FIELDS["device"]
    assert device["enum"][:2] == ["from settings", "auto"]
    assert device["default"] == "from settings"
    assert set(device["enum"][2:]) == {"cpu", "mps", "cuda", *(f"cuda:{n}" for n in range(8))}
    hardware = find_device("cpu").hardware
    assert f"`cpu`: {hardware}" in device["description"]


def test_devices_of_a_machine_with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [Device(f"cuda:{n}", "NVIDIA L4", 8, 24 << 30) for n in (0, 1)]
    here.append(Device("cpu", "AMD EPYC", 8, 64 << 30))
    monkeypatch.setattr("twolevers.choices._devices", lambda: tuple(here))
    assert choices("device") == [
        "from settings", "auto", "cuda", "cuda:0", "cuda:1", "cpu",
        "mps", *(f"cuda:{n}" for n in range(2, 8)),
    ]  # fmt: skip
    made_there = parameter_schema(fine_tune).properties["device"]
    assert made_there["enum"] == choices("device")
    assert "`cuda:1`: NVIDIA L4" in made_there["description"]


def test_other_drop_downs() -> None:
    assert FIELDS["precision"]["enum"] == ["auto", "float32", "bfloat16", "float16"]
    assert FIELDS["prompt_style"]["enum"] == ["alpaca", "phi3"]
    assert FIELDS["loss_on"]["enum"] == ["everything", "response"]
    assert FIELDS["split"]["enum"] == ["file order", "shuffled"]
    assert FIELDS["lr_schedule"]["enum"] == ["constant", "cosine"]
    for name in ("`embedded`", "`chapter7`", "path", "https"):
        assert name in FIELDS["dataset"]["description"]


def test_numbers_show_unit_and_bounds() -> None:
    numbers = {name for name, schema in FIELDS.items() if types(schema) & {"integer", "number"}}
    assert numbers == {*UNITS, *NO_UNIT} == {*BOUNDS}
    for name in numbers:
        schema = FIELDS[name]
        found = {
            key: value for part in schema.get("anyOf", [schema]) for key, value in part.items()
        }
        keys = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        assert {key: found[key] for key in keys if key in found} == BOUNDS[name], name
        shown = schema["description"].rpartition("[")[2].rstrip("]").split(", ", 1)
        assert (shown[0] == UNITS[name]) if name in UNITS else shown, name
    assert FIELDS["epochs"]["description"].endswith("[epochs, 1 or more]")
    assert FIELDS["top_p"]["description"].endswith("[probability, over 0, at most 1]")
    assert FIELDS["seed"]["description"].endswith("[0 or more, below 4,294,967,296]")


def test_what_cannot_run_fails_before_the_first_stage(command: Command, server: str) -> None:
    """Refused by the flow where the form let it through; the reason is the run's state."""
    command.env["PREFECT_LOGGING_LEVEL"] = "CRITICAL"
    flow_run = command.run(script=SCRIPT).split()[-1]
    with httpx.Client(base_url=server, trust_env=False) as api:
        run = api.get(f"/flow_runs/{flow_run}").json()
        wanted = {"flow_runs": {"id": {"any_": [flow_run]}}}
        tasks = api.post("/task_runs/filter", json=wanted).json()
    assert (run["state"]["type"], run["run_count"]) == ("FAILED", 1)
    for text in ("--max-length 2000", "1024", "float16", "choose float32 or bfloat16"):
        assert text in run["state"]["message"]
    assert tasks == []
    assert command.statuses() == []
