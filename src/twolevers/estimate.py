"""The forecast of one run: what is read, what it holds in memory, how long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twolevers.computing import computing
from twolevers.data.split import load_split
from twolevers.device import Device
from twolevers.errors import InputError
from twolevers.fingerprint import workload_fingerprint
from twolevers.forecast import (
    MemoryForecast,
    TimeForecast,
    forecast_memory,
    from_earlier_runs,
    not_fitting,
)
from twolevers.models.catalog import ModelEntry, find_model
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.options import FineTuneOptions
from twolevers.records import TokenisedData
from twolevers.run_times import Column
from twolevers.settings import Home, load_settings
from twolevers.tracking.timings import train_seconds
from twolevers.training.calibrate import calibrate, warm_up
from twolevers.training.memory import resident
from twolevers.training.workload import Workload, workload


@dataclass(frozen=True)
class Estimate:
    """A run before it runs."""

    model: str
    device: str
    """The device with its threads, or the name of one that is not here."""
    precision: str
    parameters: int
    epochs: int
    steps: int
    tokens: int
    """Read in optimizer steps, all epochs."""
    memory: MemoryForecast
    too_large: InputError | None
    """Why it does not fit; None where it does, or where nobody here knows the device."""
    time: TimeForecast | None
    no_time: str = ""
    """Why there is none."""

    def lines(self) -> Iterator[str]:
        """For people, memory first."""
        yield f"memory: about {self.memory}"
        yield f"training: {self.time or self.no_time}"


def estimate(
    options: FineTuneOptions,
    device: Device | None,
    data: TokenisedData,
    *,
    weights: Path | None = None,
    seconds: float,
) -> Estimate:
    """The forecast of a run.

    The time is that of earlier runs of the same workload on the same device; without any, of a
    few real steps on this machine, on a copy of the weights.

    Args:
        options: resolved, but for a device that is not here.
        device: None where it is not of this machine: nobody here can measure it.
        weights: to copy; random ones of the same size take as long.
        seconds: longest time to measure steps, 0 for not at all. A step begun is ended.
    """
    model, training = find_model(options.model), options.training
    work = workload(load_split(data, "train"), training)
    if device and device.kind == "cpu":
        with computing():
            warm_up(device)
    memory = forecast_memory(
        model.config,
        work.largest,
        kind=device.kind if device else options.device.partition(":")[0],
        precision=options.precision,
        dropout=training.dropout,
        gradient_checkpointing=training.gradient_checkpointing,
        process=resident(),
    )
    too_large = not_fitting(model, device, memory) if device else None
    time, no_time = _time(options, model, device, data, work, weights, seconds, too_large)
    return Estimate(
        model=model.name,
        device=device.label if device else options.device,
        precision=options.precision,
        parameters=model.config.num_parameters,
        epochs=training.epochs,
        steps=work.steps,
        tokens=work.tokens,
        memory=memory,
        too_large=too_large,
        time=time,
        no_time=no_time,
    )


def _time(
    options: FineTuneOptions,
    model: ModelEntry,
    device: Device | None,
    data: TokenisedData,
    work: Workload,
    weights: Path | None,
    seconds: float,
    too_large: InputError | None,
) -> tuple[TimeForecast | None, str]:
    if device is None:
        return None, f"not known: {options.device} is not of this machine, which cannot measure it"
    if earlier := _earlier(options, device, data):
        return earlier, ""
    if too_large:
        return None, "not measured: it does not fit"
    if not seconds:
        return None, "not measured: no run of this workload on this device yet"
    with computing():  # the weights too, as in training
        copy = (
            load_model(weights, model.config, dropout=options.training.dropout, device="cpu")
            if weights
            else GPT2(model.config).initialise(options.training.seed)
        )
        copy.gradient_checkpointing = options.training.gradient_checkpointing
        splits = load_split(data, "train"), load_split(data, "val")
        measured = calibrate(copy.to(device.name), work, *splits, options, device, seconds)
        del copy
    return TimeForecast(*measured.seconds(work), measured.source), ""


def _earlier(options: FineTuneOptions, device: Device, data: TokenisedData) -> TimeForecast | None:
    seconds = train_seconds(
        Home(),
        load_settings(),
        model=options.model,
        column=Column.of(device.name, device.hardware, device.threads, options.precision),
        fingerprint=workload_fingerprint(options, data.data_sha256),
    )
    return from_earlier_runs(seconds) if seconds else None
