"""Does the fast path learn what the plain one learns? Validation losses after equal training."""

from __future__ import annotations

from pathlib import Path

from benchmarks.contest import contest
from benchmarks.job import Job
from twolevers.embedded import NANO_PATH
from twolevers.models.catalog import find_model

SMALL, SMALL_STEPS = "gpt2-small (124M)", 60
CONTESTANTS = ("plain", "plain-tied", "ours-auto", "ours-float32", "ours-bfloat16")


def measure(data: Path, weights: Path) -> dict[str, dict[str, float]]:
    """Validation loss of each contestant: nano after two epochs, gpt2-small after 60 steps."""
    epochs = 2 * len(Job.read(data).batches())
    found = {}
    for what, folder, model, steps in (
        (f"gpt2-nano, its own weights, {epochs} steps", NANO_PATH, "gpt2-nano (7M)", epochs),
        (f"gpt2-small, random weights, {SMALL_STEPS} steps", weights, SMALL, SMALL_STEPS),
    ):
        rate = find_model(model).learning_rate
        found[what] = {}
        for name in CONTESTANTS:
            with contest([name], data, folder, rate, warm=False) as processes:
                found[what][name] = processes[name].ask(f"losses {steps}")["loss"]
    return found


def report(found: dict[str, dict[str, float]]) -> str:
    lines = []
    for what, losses in found.items():
        lines.append(f"{what}: validation loss")
        for name, loss in losses.items():
            apart = loss / losses["plain-tied"] - 1
            lines.append(f"  {name:<16} {loss:.4f}  {apart:+.2%} of plain with tied weights")
    return "\n".join(lines)
