"""From what was asked for to what will run: every problem found before a stage starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from twolevers.data.catalog import DATASETS, find_dataset
from twolevers.data.prompt import find_style
from twolevers.device import Device, find_device, find_precision, use_threads
from twolevers.errors import InputError, Problem
from twolevers.models.catalog import ModelEntry, find_model
from twolevers.models.fetch import check_local
from twolevers.options import FROM_SETTINGS, FineTuneOptions
from twolevers.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """A fine-tuning that can start: options with nothing left to look up, and what they name."""

    options: FineTuneOptions
    """Model by its full name, device as PyTorch takes it, precision and learning rate set."""
    model: ModelEntry
    device: Device

    @property
    def run_name(self) -> str:
        """`gpt2-small (124M) · cpu · 2 epochs`."""
        epochs = self.options.training.epochs
        return f"{self.model.name} · {self.device.name} · {epochs} epoch{'s' * (epochs != 1)}"


def make_plan(options: FineTuneOptions, settings: Settings) -> Plan:
    """Resolve both levers and check what can be checked without reading data or weights.

    Sets the process's CPU threads first, since a device's name says how many it computes with.

    Raises:
        InputError: every problem at once.
    """
    use_threads(options.run.threads)
    problems: list[Problem] = []

    def attempt(find: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return find(*arguments)
        except InputError as error:
            problems.extend(error.problems)
            return None

    def lever(value: str, setting: str) -> str:
        return setting if value == FROM_SETTINGS else value

    model = attempt(find_model, lever(options.model, settings.choose_model))
    device = attempt(find_device, lever(options.device, settings.choose_device))
    precision = attempt(find_precision, options.precision, device) if device else None
    dataset = attempt(find_dataset, options.dataset)
    attempt(find_style, options.data.prompt_style)
    weights = None
    if options.weights is not None and model is not None:
        weights = attempt(check_local, model, options.weights)
    if model and options.data.max_length > model.config.context_length:
        problems.append(
            Problem(
                "--max-length",
                options.data.max_length,
                f"is over the model's context of {model.config.context_length} tokens",
                f"give {model.config.context_length} or less",
            )
        )
    if problems or model is None or device is None or precision is None or dataset is None:
        raise InputError(problems)
    learning_rate = options.training.learning_rate or model.learning_rate
    resolved = options.model_copy(
        update={
            "model": model.name,
            "device": device.name,
            "precision": precision,
            # Absolute, so that the run can be continued from any folder.
            "dataset": dataset.name if dataset.name in DATASETS else dataset.source,
            "weights": str(weights) if weights else None,
            "training": options.training.model_copy(update={"learning_rate": learning_rate}),
        }
    )
    return Plan(resolved, model, device)


def resume_options(stored: FineTuneOptions, given: FineTuneOptions) -> FineTuneOptions:
    """The stored run's options, changed where `given` departs from the defaults."""

    def merge(old: Any, new: Any, default: Any) -> Any:
        if isinstance(new, dict):
            return {key: merge(old[key], new[key], default[key]) for key in new}
        return old if new == default else new

    merged = merge(stored.model_dump(), given.model_dump(), FineTuneOptions().model_dump())
    return FineTuneOptions.model_validate(merged)
