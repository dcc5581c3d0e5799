"""What the levers and the data set can be set to, as a form shows it: values and what they are.

The texts are Markdown on one line, for Prefect's form joins lines. They are made where the form
is: the devices named are that machine's.
"""

from __future__ import annotations

from functools import cache

from twolevers.data.catalog import DATASETS
from twolevers.device import Device, available_devices
from twolevers.models.catalog import MODELS
from twolevers.options import DEVICES, FROM_SETTINGS, FineTuneOptions


def choices(option: str) -> list[str] | None:
    """The values of a drop-down, None where anything can be given.

    Models stand in the catalog's order, devices with this machine's first.
    """
    if option == "model":
        return [FROM_SETTINGS, *MODELS]
    if option == "device":
        here = [device.name for device in _devices()]
        if any(name.startswith("cuda:") for name in here):
            here.insert(0, "cuda")  # another name of the first
        return [FROM_SETTINGS, *dict.fromkeys(["auto", *here, *DEVICES])]
    return None


def explain(option: str) -> str:
    """What an option is, with what there is to choose where that is known."""
    about = {"model": _models, "device": _device_names, "dataset": _datasets}
    if option in about:
        return "; ".join(about[option]())
    return FineTuneOptions.model_fields[option].description or ""


def _models() -> list[str]:
    return [
        f"the model lever. `{FROM_SETTINGS}`: CHOOSE_MODEL as it stands when the run starts",
        *(f"`{entry.name}`: {entry.description}" for entry in MODELS.values()),
    ]


def _device_names() -> list[str]:
    first = _devices()[0].name
    return [
        f"the device lever. `{FROM_SETTINGS}`: CHOOSE_DEVICE as it stands when the run starts",
        f"`auto`: the first GPU, else the CPU (here `{first}`)",
        *(f"`{device.name}`: {device.hardware}" for device in _devices()),
        "the others are other machines'. The machine that runs it says whether it has the device",
    ]


def _datasets() -> list[str]:
    return [
        *(f"`{entry.name}`: {entry.description}" for entry in DATASETS.values()),
        "or a path on the machine that runs it, or an https address (JSON, JSON Lines, CSV, TSV, "
        "Parquet)",
    ]


@cache
def _devices() -> tuple[Device, ...]:
    return tuple(available_devices())
