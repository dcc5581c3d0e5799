"""The command that would start a run, written out for people to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from twolevers.classification.options import ClassifyOptions
from twolevers.errors import InputError
from twolevers.models.catalog import find_model
from twolevers.options import FineTuneOptions, Group, flag, option_fields

LEVERS = ("model", "device", "precision")


def fine_tune_command(params: Mapping[str, str], **levers: str) -> str:
    """`twolevers fine-tune …` as a run was started, with levers turned.

    Args:
        params: the run's options as they were tracked: flat, values as text.
        levers: `model`, `device`, `precision` where they are to be others.
    """
    return _command("fine-tune", FineTuneOptions, params, levers)


def classify_command(params: Mapping[str, str], **levers: str) -> str:
    """`twolevers classify …`, as `fine_tune_command`."""
    return _command("classify", ClassifyOptions, params, levers)


def _command(
    command: str, options: type[Group], params: Mapping[str, str], levers: Mapping[str, str]
) -> str:
    words = ["twolevers", command]
    for name in LEVERS:
        if value := levers.get(name, params.get(name)):
            words += [flag(name), value]
    for _, name, field in option_fields(options):
        value = params.get(name)
        is_left = name in LEVERS or value in (None, "None", "")
        if is_left or is_default(name, params, options):
            continue
        if name == "weights" and "model" in levers:
            continue
        if field.annotation is bool:
            words.append(flag(name) if value == "True" else f"--no-{flag(name)[2:]}")
        else:
            words += [flag(name), str(value)]
    return shlex.join(words)


def is_default(
    name: str, params: Mapping[str, str], options: type[Group] = FineTuneOptions
) -> bool:
    """Whether an option of a run has the value that it has where nothing is said about it."""
    field = next(field for _, option, field in option_fields(options) if option == name)
    default = str(field.get_default(call_default_factory=True))
    return params.get(name) == default or _is_own(name, params)


def _is_own(name: str, params: Mapping[str, str]) -> bool:
    """A learning rate that is the model's own needs no flag."""
    if name != "learning_rate":
        return False
    try:
        return float(params[name]) == find_model(params.get("model", "")).learning_rate
    except (ValueError, InputError):
        return False
