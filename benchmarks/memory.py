"""Peak memory of full fine-tuning by model: the whole process, loading and validation included."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.contest import contest
from benchmarks.job import data_file, write_weights

CASES = (
    ("gpt2-small (124M)", "ours-auto", 3.2),
    ("gpt2-medium (355M)", "ours-auto", 8.0),
    ("gpt2-large (774M)", "ours-checkpointing", 24.0),
)
"""Model, contestant, and the GiB that it may take."""


def measure(data: Path) -> str:
    lines = []
    for model, name, limit in CASES:
        with tempfile.TemporaryDirectory() as folder:
            weights = write_weights(model, Path(folder) / "weights")
            with contest([name], data, weights) as processes:
                precision = processes[name].ask("precision")["precision"]
                seconds = processes[name].ask("steps 2")["seconds"]
                processes[name].ask("validate")
                gib = processes[name].ask("peak")["bytes"] / 2**30
        how = ", gradient checkpointing" if name == "ours-checkpointing" else ""
        lines.append(
            f"{model}, {precision}{how}: peak {gib:.2f} GiB, wanted at most {limit:g}; "
            f"{seconds:.2f} s a step"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(measure(data_file()))
