"""How a step's time grows: with the real tokens, and not with the longest entry."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contestants import Ours
from benchmarks.job import Job, data_file, write_weights
from benchmarks.result import median_of
from twolevers.computing import computing
from twolevers.data.row import Row

LENGTHS = (32, 64, 128, 256)
ROWS, RUNS, LONG = 8, 5, 1_000


def measure(data: Path, weights: Path) -> str:
    """Seconds a step of eight rows of each length, and of a chapter batch with a long row in it."""
    job = Job.read(data)
    ids = [token for row in job.train for token in row.token_ids]
    with computing():
        ours = Ours(job, weights, 5e-5, "auto")
        batches = {
            length: [Row(ids[start : start + length + 1]) for start in range(0, ROWS * 300, 300)]
            for length in LENGTHS
        }
        usual = job.batches()[0]
        long = Row(ids[: LONG + 1])
        mixed = {"usual": usual, "long": [long], "both": [*usual, long]}
        everything = {**batches, **mixed}
        seconds: dict[object, list[float]] = {name: [] for name in everything}
        for run in range(RUNS + 1):  # the first is not counted
            for name, rows in everything.items():
                reading = _seconds(ours, rows)
                if run:
                    seconds[name].append(reading)
    medians = {name: median_of(readings) for name, readings in seconds.items()}
    lines = ["Eight entries of one length, a step:"]
    fixed, rate = _line([ROWS * n for n in LENGTHS], [medians[n] for n in LENGTHS])
    for length in LENGTHS:
        straight = fixed + rate * ROWS * length
        lines.append(
            f"  {length:4} tokens: {medians[length]:.3f} s, {medians[length] / straight - 1:+.1%} "
            f"of the straight line {fixed:.3f} s + {rate * 1e3:.2f} ms a token"
        )
    apart = medians["usual"] + medians["long"] - fixed
    lines.append(
        f"A usual batch {medians['usual']:.3f} s, one entry of {LONG:,} tokens "
        f"{medians['long']:.3f} s, both in one batch {medians['both']:.3f} s: "
        f"{medians['both'] / apart - 1:+.1%} of the two together."
    )
    return "\n".join(lines)


def _seconds(ours: Ours, rows: Sequence[Row]) -> float:
    began = time.perf_counter()
    ours.step(rows)
    return time.perf_counter() - began


def _line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Least squares: what is there at no token, and what each token adds."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum(
        (a - mean_x) ** 2 for a in x
    )
    return mean_y - slope * mean_x, slope


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(measure(data_file(), write_weights("gpt2-small (124M)", Path(folder) / "weights")))
