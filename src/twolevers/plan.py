"""From what was asked for to what will run: every problem found before a stage starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from twolevers.data.catalog import DATASETS, find_dataset
from twolevers.data.mapping import parse_map
from twolevers.data.prompt import find_style
from twolevers.device import Device, find_device, find_precision, use_threads
from twolevers.errors import InputError, Problem
from twolevers.models.catalog import ModelEntry, find_model
from twolevers.models.fetch import check_local
from twolevers.options import (
    FROM_SETTINGS,
    FineTuneOptions,
    GenerationOptions,
    Group,
    RunOptions,
    TaskOptions,
    build_options,
    flag,
    option_fields,
)
from twolevers.settings import Settings

T = TypeVar("T")
Options = TypeVar("Options", bound=TaskOptions)

LEVERS = ("model", "device", "precision", "dataset", "weights")
CHANGEABLE = frozenset(
    {"device", "epochs", "eval_every", "eval_batches", "checkpoint_every"}
    | {"gradient_checkpointing", "deterministic"}
    | set(GenerationOptions.model_fields)
    | set(RunOptions.model_fields)
)
"""Options that may change when a run goes on: they do not move the weights of a step."""


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


def make_plan(options: FineTuneOptions, settings: Settings, *, data_is_kept: bool = False) -> Plan:
    """Resolve both levers and check what can be checked without reading data or weights.

    Sets the process's CPU threads first, since a device's name says how many it computes with.

    Args:
        data_is_kept: the data is that of an earlier run and is not looked for.

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
    dataset = None if data_is_kept else attempt(find_dataset, options.dataset)
    attempt(find_style, options.data.prompt_style)
    attempt(parse_map, options.data.map)
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
    if problems or model is None or device is None or precision is None:
        raise InputError(problems)
    learning_rate = options.training.learning_rate or model.learning_rate
    source = options.dataset
    if dataset is not None:
        # Absolute, so that the run can be continued from any folder.
        source = dataset.name if dataset.name in DATASETS else dataset.source
    resolved = options.model_copy(
        update={
            "model": model.name,
            "device": device.name,
            "precision": precision,
            "dataset": source,
            "weights": str(weights) if weights else None,
            "training": options.training.model_copy(update={"learning_rate": learning_rate}),
        }
    )
    return Plan(resolved, model, device)


def options_from(given: Mapping[str, Any], settings: Settings) -> FineTuneOptions:
    """Flat values to options, as `build_options`.

    Raises:
        InputError: values out of bounds and names that mean nothing, all at once.
    """
    try:
        return build_options(given)
    except InputError as error:
        faulty = {problem.where for problem in error.problems}
        rest = {name: value for name, value in given.items() if flag(name) not in faulty}
        try:
            make_plan(build_options(rest, {}), settings)
        except InputError as more:
            raise InputError([*error.problems, *more.problems]) from None
        raise


def resume_options(stored: Options, given: Options, settings: Settings) -> Options:
    """The options with which a run goes on: its own, changed where that is asked and allowed.

    Args:
        stored: the run's, resolved.
        given: either resolved too, then all of it is asked for; or as a form was filled in, then
            a default asks for nothing.

    Raises:
        InputError: every change that would make it another run.
    """
    whole = _is_resolved(given)
    new, default = flat_options(given), flat_options(type(given).model_validate({}))
    changes = {name: new[name] for name in new if whole or new[name] != default[name]}
    return changed_options(stored, changes, settings)


def _is_resolved(options: TaskOptions) -> bool:
    return (
        options.model != FROM_SETTINGS
        and options.device not in (FROM_SETTINGS, "auto")
        and options.precision != "auto"
        and flat_options(options)["learning_rate"] is not None
    )


def changed_options(stored: Options, changes: Mapping[str, Any], settings: Settings) -> Options:
    """A run's options with `changes` by their flat names, for going on with it.

    The levers, data and weights may be named in any way: `nano`, `auto`, a relative path.

    Raises:
        InputError: every change that would make it another run.
    """
    old = flat_options(stored)
    levers = {name: changes[name] for name in LEVERS if changes.get(name, old[name]) != old[name]}
    if levers:
        renamed = FineTuneOptions(**{name: getattr(stored, name) for name in LEVERS} | levers)
        named = make_plan(renamed, settings, data_is_kept="dataset" not in levers).options
        changes = {**changes, **{name: getattr(named, name) for name in levers}}
    problems = [
        Problem(
            flag(name),
            value,
            f"the run was started with {old[name]!r} and goes on with that",
            "leave it out, or start a new run",
        )
        for name, value in changes.items()
        if name not in CHANGEABLE and value != old[name]
    ]
    if problems:
        raise InputError(problems)
    options = stored.model_dump()
    for group, name, _ in option_fields(type(stored)):
        if name in changes:
            (options[group] if group else options)[name] = changes[name]
    return type(stored).model_validate(options)


def flat_options(options: Group) -> dict[str, Any]:
    """Every option by its own name, groups aside."""
    return {
        name: getattr(getattr(options, group) if group else options, name)
        for group, name, _ in option_fields(type(options))
    }
