"""What orchestration costs: `twolevers fine-tune` against the same calls of the core, bare.

Ours is the command, from its start to its exit, in a home that an earlier run has warmed. Theirs
is one process that calls the core's stages one after the other, tracks and shows nothing; only
the calls count there: not the interpreter, not imports, not what checkpoints took.

`python -m benchmarks.overhead` measures and prints; `make bench BENCH=overhead` does it too.
"""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.result import Result, median_of

ROOT = Path(__file__).parents[1]
OPTIONS = {"model": "gpt2-nano", "device": "cpu", "dataset": "embedded", "epochs": "1"}
SHARE, FIXED_SECONDS = 1.05, 12.0
"""The target: so much of the bare time, and so many seconds besides."""

# The core and its libraries import these at first use; on the bare side no import is to count.
IMPORTED_LATE = ("torch._dynamo", "sacrebleu.metrics")

IMPORTS = "import flows.launch, flows.fine_tune, flows.terminal, flows.views"
MLFLOW = "from twolevers.tracking.store import quiet_mlflow; quiet_mlflow()"
SERVER = """
from flows.temporary_server import prefect_server
from twolevers.settings import Home
with prefect_server(Home()) as wait_until_ready:
    wait_until_ready()
"""


@dataclass(frozen=True)
class Reading:
    """One run of the command, in seconds; the parts as Prefect's database tells them."""

    whole: float
    until_flow: float
    """From the command's start to the flow's: interpreter, imports, Prefect's server."""
    stages: float
    """In the stages that both sides have, checkpoints not counted."""
    checkpoints: float
    report: float
    """The stage that bare calls lack: summary, tables and picture, in the folder and in MLflow."""
    between: float
    """In the flow, but in no stage: Prefect's states, opening and closing the MLflow run."""
    after_flow: float


def measure(runs: int = 3) -> list[Result]:
    """The command and the bare calls in turn, `runs` times each, on gpt2-nano, one epoch, CPU."""
    with tempfile.TemporaryDirectory(prefix="twolevers-overhead-") as folder:
        home = Path(folder)
        _run_command(home)  # makes the databases and the tokens
        ours, theirs = [], []
        for _ in range(runs):
            ours.append(_run_command(home))
            theirs.append(_run_bare(home))
        alone = {name: _alone(code, home) for name, code in _ALONE.items()}
    bare = median_of(theirs)
    return [
        Result(
            work="orchestration: Prefect + MLflow + checkpoints, warm, over the bare training call",
            against="",
            ours=median_of([reading.whole for reading in ours]),
            theirs=bare,
            unit="s",
            runs=runs,
            most=SHARE * bare + FIXED_SECONDS,
            notes=_notes(ours, bare, alone),
        )
    ]


def _notes(ours: Sequence[Reading], bare: float, alone: dict[str, float]) -> list[str]:
    part = {
        field.name: median_of([getattr(reading, field.name) for reading in ours])
        for field in fields(Reading)
    }
    return [
        f"{part['whole'] - bare:.1f} s more than bare: until the flow starts "
        f"{part['until_flow']:.1f} s, MLflow and Prefect in the shared stages "
        f"{part['stages'] - bare:.1f} s, between stages {part['between']:.1f} s, report "
        f"{part['report']:.1f} s, checkpoints {part['checkpoints']:.1f} s, from the flow's end to "
        f"the command's {part['after_flow']:.1f} s",
        "what lies before the flow, each alone: "
        + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in alone.items())
        + "; the server starts while the rest is imported",
        "bare counts neither interpreter nor imports nor checkpoints",
    ]


def _run_command(home: Path) -> Reading:
    """`twolevers fine-tune`, from start to exit."""
    flags = [text for name, value in OPTIONS.items() for text in (f"--{name}", value)]
    began = time.time()
    _run(["-m", "flows.cli", "fine-tune", *flags], home)
    ended = time.time()
    with closing(sqlite3.connect(home / ".prefect" / "prefect.db")) as database:
        flow, start, end = database.execute(
            "SELECT id, start_time, end_time FROM flow_run ORDER BY start_time DESC LIMIT 1"
        ).fetchone()
        stages = database.execute(
            "SELECT name, start_time, end_time FROM task_run WHERE flow_run_id = ?", (flow,)
        ).fetchall()
    seconds = {name: _moment(last) - _moment(first) for name, first, last in stages}
    report = seconds.pop("report")
    newest = max(
        home.glob("runs/*/checkpoints/finished.json"), key=lambda file: file.stat().st_mtime
    )
    checkpoints = json.loads(newest.read_text(encoding="utf-8"))["result"]["checkpoint_seconds"]
    return Reading(
        whole=ended - began,
        until_flow=_moment(start) - began,
        stages=sum(seconds.values()) - checkpoints,
        checkpoints=checkpoints,
        report=report,
        between=_moment(end) - _moment(start) - sum(seconds.values()) - report,
        after_flow=ended - _moment(end),
    )


def _moment(text: str) -> float:
    """Prefect's database keeps times in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _run_bare(home: Path) -> float:
    """The same stages without Prefect and MLflow; seconds of the calls, less checkpoints."""
    return float(_run(["-m", "benchmarks.overhead", "bare"], home))


def bare() -> float:
    """What `_run_bare` runs in a process of its own, as flow and tasks chain the same calls."""
    from twolevers.data.fetch import fetch_dataset
    from twolevers.data.tokenise import tokenise
    from twolevers.evaluation.score import score
    from twolevers.generation.respond import respond
    from twolevers.interrupt import StopFlag
    from twolevers.models.fetch import fetch_weights
    from twolevers.options import build_options
    from twolevers.plan import make_plan
    from twolevers.progress import Silent
    from twolevers.records import Role
    from twolevers.settings import Home, load_settings
    from twolevers.tracking.protocol import NullTracker
    from twolevers.training.fine_tune import fine_tune

    for module in IMPORTED_LATE:
        importlib.import_module(module)
    home, progress = Home(), Silent()
    plan = make_plan(build_options(OPTIONS), load_settings())
    options, device, config = plan.options, plan.device, plan.model.config
    training = options.training
    with tempfile.TemporaryDirectory(dir=home.root) as temporary:
        folder = Path(temporary)
        began = time.perf_counter()
        dataset = fetch_dataset(options.dataset, home, progress)
        weights = fetch_weights(options.model, options.weights, home, progress)
        data = tokenise(dataset, options.data, seed=training.seed, home=home, progress=progress)
        tuned = fine_tune(
            weights,
            data,
            options,
            device=device,
            folder=folder,
            tracker=NullTracker(),
            progress=progress,
            stop=StopFlag(),
        )
        models: dict[Role, Path] = {"base": weights.path, "tuned": tuned.checkpoint}
        for role, model in models.items():
            answers = respond(
                role,
                model,
                data,
                options.generation,
                config=config,
                device=device,
                precision=options.precision,
                seed=training.seed,
                output=folder / f"responses-{role}.jsonl",
                progress=progress,
            )
            score(
                role,
                model,
                data,
                answers,
                config=config,
                device=device,
                precision=options.precision,
                batch_size=training.batch_size,
            )
        return time.perf_counter() - began - tuned.checkpoint_seconds


def _alone(code: str, home: Path) -> float:
    """Seconds that a process takes for `code`, its interpreter's start and end not counted."""
    timed = f"import time\nbegan = time.perf_counter()\n{code}\nprint(time.perf_counter() - began)"
    return float(_run(["-c", timed], home))


_ALONE = {
    "imports": IMPORTS,
    "MLflow's": MLFLOW,
    "Prefect's server": SERVER,
}


def _run(arguments: Sequence[str], home: Path) -> str:
    """Standard output of a Python process over `home`, with none of the user's own settings."""
    ours = ("TWOLEVERS_", "PREFECT_", "MLFLOW_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**environment, "TWOLEVERS_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main() -> None:
    if sys.argv[1:] == ["bare"]:
        print(bare())
        return
    for result in measure():
        print(
            f"{result.work}\nours {result.ours:.1f} s, theirs {result.theirs:.1f} s, at most "
            f"{result.most:.1f} s wanted: {'holds' if result.holds else 'does not hold'}"
        )
        print(*result.notes, sep="\n")


if __name__ == "__main__":
    main()
