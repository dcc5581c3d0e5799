"""The workload fingerprint: a hash of what makes two timings comparable.

Model, device, precision, threads and core version are not in it: they are what is compared.
Neither are the learning rate and its like, which change results but not the work.
"""

from __future__ import annotations

from collections.abc import Mapping

from twolevers.data.mapping import parse_map
from twolevers.files import hash_of
from twolevers.options import FineTuneOptions

LENGTH = 16


def fingerprint_parts(
    options: FineTuneOptions, data_sha256: str, task: str = "instructions"
) -> dict[str, object]:
    """What goes into the fingerprint, by name, so that a table can say how two differ."""
    data, training = options.data, options.training
    # The seed decides which rows are trained on only where it shuffles the split.
    split = "file order" if data.split == "file order" else f"shuffled by {training.seed}"
    if data.drop_duplicates:
        split += ", duplicates dropped"
    return {
        "task": task,
        "data": data_sha256.lower(),
        # Left out where nothing is mapped: such workloads were timed before there was a map.
        **({"map": parse_map(data.map)} if data.map else {}),
        "split": split,
        "shuffle": "each epoch",
        "drop_last": training.drop_last,
        "epochs": training.epochs,
        "batch_size": training.batch_size,
        "gradient_accumulation_steps": training.gradient_accumulation_steps,
        "max_length": data.max_length,
        "prompt_style": data.prompt_style,
        "loss_on": data.loss_on,
        "trained_parameters": "all",
        "eval_every": training.eval_every,
        "eval_batches": training.eval_batches,
        "gradient_checkpointing": training.gradient_checkpointing,
    }


def workload_fingerprint(
    options: FineTuneOptions, data_sha256: str, task: str = "instructions"
) -> str:
    """The fingerprint as 16 hex digits."""
    return fingerprint_of(fingerprint_parts(options, data_sha256, task))


def fingerprint_of(parts: Mapping[str, object]) -> str:
    """The fingerprint of what makes two timings of any task comparable."""
    return hash_of(parts)[:LENGTH]


def fingerprint_differences(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """How two workloads differ, one line a part: `batch_size: 8, not 4`. Of two tasks only the
    parts that both have; of the data's hashes the first eight digits."""
    if one.get("task") != other.get("task"):
        one = {name: part for name, part in one.items() if name in other}
        other = {name: part for name, part in other.items() if name in one}
    return [
        f"{name}: {_shown(name, one)}, not {_shown(name, other)}"
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def _shown(name: str, parts: dict[str, object]) -> str:
    text = str(parts.get(name))
    return text[:8] if name == "data" else text
