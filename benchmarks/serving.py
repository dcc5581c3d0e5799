"""`twolevers serve` with 16 clients, against Hugging Face's `generate` one at a time.

Ours is the whole of it: a server of its own, asked over HTTP. Theirs is the bare call with its
cache, in the precision that is the faster one here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.contest import ROOT, contest
from benchmarks.job import NEW_TOKENS, Job, data_file, write_weights
from benchmarks.result import median_of
from benchmarks.steps import HUGGING_FACE, better_precision

CLIENTS, REQUESTS, RUNS, TARGET = 16, 48, 3, 4.0


def measure(data: Path, weights: Path) -> str:
    """Both rates in new tokens a second, and the ratio."""
    prompts = Job.read(data).prompts[:REQUESTS]
    ours, theirs = [], []
    with contest(HUGGING_FACE, data, weights, warm=False) as processes, server(weights) as url:
        better = better_precision(processes, "singly 1", "rate", least=False)
        ask_all(url, prompts[:CLIENTS])
        for _ in range(RUNS):
            theirs.append(float(processes[better].ask("singly 4")["rate"]))
            ours.append(ask_all(url, prompts))
    ratio = median_of(ours) / median_of(theirs)
    return "\n".join(
        [
            f"serving gpt2-small, {NEW_TOKENS} new tokens a request, medians of {RUNS}:",
            f"  twolevers serve, {CLIENTS} clients: {_readings(ours)} tokens/s",
            f"  hugging face `generate`, one at a time, {better.removeprefix('hugging-face-')}: "
            f"{_readings(theirs)} tokens/s",
            f"  ratio {ratio:.2f}, wanted at least {TARGET:g}: "
            f"{'holds' if ratio >= TARGET else 'falls short'}",
        ]
    )


@contextmanager
def server(weights: Path) -> Iterator[str]:
    """`twolevers serve` on a free port, until the block ends; its address."""
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "flows.cli", "serve", "--run", str(weights)),
                *("--port", "0", "--max-batch", str(CLIENTS)),
            ],
            cwd=ROOT,
            env={**os.environ, "TWOLEVERS_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        try:
            shown = ""
            for line in process.stdout:
                shown += line
                if "Ctrl-C" in line:
                    break
            found = re.search(r"http://\S+/v1", shown)
            if not found:
                raise SystemExit(f"twolevers serve failed: {shown}")
            yield found[0]
        finally:
            process.terminate()
            process.communicate()


def ask_all(url: str, prompts: Sequence[list[int]]) -> float:
    """New tokens a second, as the clients count them."""
    with httpx.Client(timeout=600, limits=httpx.Limits(max_connections=CLIENTS)) as client:

        def ask(prompt: list[int]) -> int:
            body = {"prompt": prompt, "max_tokens": NEW_TOKENS, "temperature": 0}
            answer = client.post(f"{url}/completions", json=body).raise_for_status().json()
            return int(answer["usage"]["completion_tokens"])

        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            tokens = sum(pool.map(ask, prompts))
        return tokens / (time.perf_counter() - began)


def _readings(rates: Sequence[float]) -> str:
    return f"{median_of(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(measure(data_file(), write_weights("gpt2-small (124M)", Path(folder) / "weights")))
