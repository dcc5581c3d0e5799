"""Contestants side by side: each in a process of its own, asked in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.result import median_of

ROOT = Path(__file__).parents[1]


class Process:
    """One contestant's process; `ask` gives it a task and waits for its answer."""

    def __init__(self, name: str, data: Path, weights: Path, learning_rate: float) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.contestants"),
                *(name, str(data), str(weights), str(learning_rate)),
            ],
            cwd=ROOT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._read()

    def ask(self, task: str) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write(task + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        assert self._process.stderr
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed:\n{self._process.stderr.read()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def contest(
    names: Sequence[str],
    data: Path,
    weights: Path,
    learning_rate: float = 5e-5,
    *,
    warm: bool = True,
) -> Iterator[dict[str, Process]]:
    """The contestants, loaded; and warm, where what a first step costs once is not to count."""
    with ExitStack() as stack:
        processes = {}
        for name in names:
            processes[name] = Process(name, data, weights, learning_rate)
            stack.callback(processes[name].close)
            if warm:
                processes[name].ask("warm")
        yield processes


def alternate(
    processes: dict[str, Process], task: str, figure: str, runs: int
) -> dict[str, list[float]]:
    """`runs` readings of every contestant, one after the other in each round."""
    readings = defaultdict(list)
    for _ in range(runs):
        for name, process in processes.items():
            readings[name].append(float(process.ask(task)[figure]))
    return dict(readings)


def medians(readings: dict[str, list[float]]) -> dict[str, float]:
    return {name: median_of(values) for name, values in readings.items()}


def peaks(processes: dict[str, Process]) -> dict[str, float]:
    """GiB resident at most, of each contestant so far."""
    return {name: process.ask("peak")["bytes"] / 2**30 for name, process in processes.items()}
