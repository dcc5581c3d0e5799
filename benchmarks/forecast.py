"""What was forecast before a run, beside what the run then took: time, and the process's memory.

First `twolevers estimate`, then the same run by `twolevers fine-tune` in a home of its own, with
random weights from a local folder. The larger models get fewer entries: as long steps, fewer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.job import data_file, write_weights

ROOT = Path(__file__).parents[1]
ENTRIES: dict[str, int | None] = {
    "gpt2-nano (7M)": None,
    "gpt2-small (124M)": 240,
    "gpt2-medium (355M)": 120,
}
TIME, MEMORY = 0.20, 0.15
"""How near a forecast is to be, as a share of what was taken."""


def measure(data: Path) -> str:
    """A line a model."""
    return "\n".join(_line(model, entries, data) for model, entries in ENTRIES.items())


def _line(model: str, entries: int | None, data: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="twolevers-forecast-") as folder:
        home = Path(folder)
        rows = json.loads(data.read_text(encoding="utf-8"))[:entries]
        (home / "data.json").write_text(json.dumps(rows), encoding="utf-8")
        options = ["--model", model, "--device", "cpu", "--dataset", str(home / "data.json")]
        if model != "gpt2-nano (7M)":
            options += ["--weights", str(write_weights(model, home / "weights"))]
        forecast = json.loads(_command(["estimate", *options, "--json"], home))
        # Answers of random weights end nowhere, and are not what is measured.
        _command(["fine-tune", *options, "--max-new-tokens", "4"], home)
        run = json.loads(_command(["show", "latest", "--json"], home))
    seconds, taken = forecast["time"]["seconds"], run["train_seconds"]
    mib, peak = forecast["memory_bytes"]["total"] / 2**20, run["peak_memory_bytes"] / 2**20
    return (
        f"{model}, {len(rows)} entries: "
        f"time {seconds:.1f} s forecast, {taken:.1f} s taken ({_apart(seconds, taken, TIME)}); "
        f"memory {mib:,.0f} MiB forecast, {peak:,.0f} MiB taken ({_apart(mib, peak, MEMORY)})"
    )


def _apart(forecast: float, taken: float, within: float) -> str:
    share = forecast / taken - 1
    return (
        f"{share:+.0%}, wanted within {within:.0%}: {'holds' if abs(share) <= within else 'fails'}"
    )


def _command(arguments: Sequence[str], home: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, "TWOLEVERS_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"twolevers {arguments[0]}: {done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    print(measure(data_file()))
