"""Answers to the test prompts: ours against no cache at all and against Hugging Face's."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.contest import alternate, contest, medians, peaks
from benchmarks.result import Result
from benchmarks.steps import HUGGING_FACE, better_precision

RUNS = 3


def measure(data: Path, weights: Path) -> list[Result]:
    with contest(["plain", *HUGGING_FACE, "ours-auto"], data, weights) as processes:
        better = better_precision(processes, "generate", "rate", least=False)
        for name in HUGGING_FACE:
            if name != better:
                processes.pop(name).close()
        rates = medians(alternate(processes, "generate", "rate", RUNS))
        memory = peaks(processes)
    stands_for = "" if os.environ.get("BENCH_FULL") else " (4 prompts × 64 tokens stand for it)"
    return [
        Result(
            "generation, 110 test prompts, 64 forced tokens each, tokens/s",
            f"plain float32 without a cache, one at a time{stands_for}",
            rates["ours-auto"],
            rates["plain"],
            "tokens/s",
            RUNS,
            more_is_better=True,
            target=25,
            notes=[f"peak memory {name}: {gib:.2f} GiB" for name, gib in memory.items()],
        ),
        Result(
            "generation, the same",
            "hugging face `generate`, batches of 8 with cache, its better precision",
            rates["ours-auto"],
            rates[better],
            "tokens/s",
            RUNS,
            more_is_better=True,
            target=2.0,
            notes=[f"hugging face: {better.removeprefix('hugging-face-')}"],
        ),
    ]
