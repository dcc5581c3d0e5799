"""How long 110 answers take to be judged by a server that takes 100 ms for each."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.judge_server import JudgeServer
from twolevers.evaluation.judge import judge_answers
from twolevers.evaluation.judge_options import JudgeOptions
from twolevers.generation.answers import Answer
from twolevers.progress import Silent

NUM_ANSWERS, SECONDS, MOST = 110, 0.1, 4.0
CONCURRENCY = (1, 4, 16)


def measure() -> dict[tuple[str, int], float]:
    """Seconds by protocol and questions at once, the start of the client included."""
    answers = [
        Answer(f"Question {i}", "", "right", f"answer {i}", "", True, i) for i in range(NUM_ANSWERS)
    ]
    found = {}
    for protocol in ("ollama", "openai"):
        for concurrency in CONCURRENCY:
            with JudgeServer(seconds=SECONDS) as server, tempfile.TemporaryDirectory() as folder:
                url = server.url + ("/v1" if protocol == "openai" else "")
                told = {"protocol": protocol, "url": url, "model": "llama3", "ask_twice": 0}
                began = time.perf_counter()
                judge_answers(
                    {"tuned": answers},
                    JudgeOptions.model_validate(told | {"concurrency": concurrency}),
                    folder=Path(folder),
                    progress=Silent(),
                )
                found[protocol, concurrency] = time.perf_counter() - began
    return found


def report(found: dict[tuple[str, int], float]) -> str:
    """A line a reading; at concurrency 4 it is to stay under 4 s."""
    lines = [f"{NUM_ANSWERS} answers judged by a server that takes {1000 * SECONDS:.0f} ms each:"]
    for (protocol, concurrency), seconds in found.items():
        floor = NUM_ANSWERS * SECONDS / concurrency
        bound = f"; to be under {MOST:.0f} s" if concurrency == 4 else ""
        lines.append(
            f"  {protocol}, {concurrency:2} at once: {seconds:6.2f} s "
            f"(the server's own time {floor:.2f} s{bound})"
        )
    return "\n".join(lines)
