"""Optimizer steps and validation: ours against the plain way and against Hugging Face."""

from __future__ import annotations

from pathlib import Path

from benchmarks.contest import Process, alternate, contest, medians, peaks
from benchmarks.result import Result

STEP_RUNS, OTHER_RUNS = 5, 3
HUGGING_FACE = ("hugging-face-float32", "hugging-face-bfloat16")


def measure(data: Path, weights: Path) -> list[Result]:
    names = ["plain", *HUGGING_FACE, "ours-auto", "ours-float32"]
    with contest(names, data, weights) as processes:
        precision = processes["ours-auto"].ask("precision")["precision"]
        if precision == "float32":  # one contestant is both
            processes.pop("ours-float32").close()
        better = better_precision(processes, "steps 1", "seconds", least=True)
        for name in HUGGING_FACE[1:]:
            if name != better:
                processes.pop(name).close()
        seconds = medians(alternate(processes, "steps", "seconds", STEP_RUNS))
        checks = {"plain": processes["plain"], "ours-auto": processes["ours-auto"]}
        validation = medians(alternate(checks, "validate", "seconds", OTHER_RUNS))
        memory = peaks(processes)
    seconds.setdefault("ours-float32", seconds["ours-auto"])
    notes = [f"peak memory {name}: {gib:.2f} GiB" for name, gib in memory.items()]

    def line(work: str, against: str, ours: str, theirs: str, target: float) -> Result:
        return Result(
            work, against, seconds[ours], seconds[theirs], "s a step", STEP_RUNS, target=target
        )

    auto = f"optimizer steps, auto ({precision} here)"
    results = [
        line(auto, "plain float32 (below), as users run it", "ours-auto", "plain", 5.0),
        line("optimizer steps, auto", "hugging face float32", "ours-auto", HUGGING_FACE[0], 4.0),
        line(
            "optimizer steps, auto",
            f"hugging face, its better precision ({seconds[better]:.2f} s a step here, "
            f"{better.removeprefix('hugging-face-')})",
            "ours-auto",
            better,
            2.6,
        ),
        line("optimizer steps, float32", "plain float32", "ours-float32", "plain", 1.8),
        Result(
            "validation pass over 55 entries",
            "plain float32",
            validation["ours-auto"],
            validation["plain"],
            "s",
            OTHER_RUNS,
            target=4.0,
        ),
    ]
    results[0].notes.extend(notes)
    return results


def better_precision(processes: dict[str, Process], task: str, figure: str, *, least: bool) -> str:
    """Which of Hugging Face's two is the faster one here, by one reading of each."""
    readings = {name: float(processes[name].ask(task)[figure]) for name in HUGGING_FACE}
    return (min if least else max)(readings, key=lambda name: readings[name])
