"""What a run left for its page to show, whether it has just ended or is looked up again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twolevers.evaluation.metrics import token_f1
from twolevers.files import read_json
from twolevers.generation.answers import read_pairs
from twolevers.records import RunSummary
from twolevers.report.pictures import Curve

MEMORY = {"system/memory_mebibytes": "process", "system/gpu_0_memory_mebibytes": "GPU"}
"""Where the use of memory is tracked: the metrics, and of what."""
CURVES = (
    "train/loss",
    "train/eval_loss",
    "val/loss",
    "val/epoch_loss",
    "train/tokens",
    "train/tokens_per_second",
    "train/grad_norm",
    *MEMORY,
)
"""The step metrics that pages draw."""
CHANGED = "changed."
DATA_FOLDER, LEDGER_FILE, INPUTS_FILE = "data", "ledger.json", "inputs.json"
FILES = (LEDGER_FILE, INPUTS_FILE, "responses-base.jsonl", "responses-tuned.jsonl")
"""What pages are made of besides what is tracked, as it is stored with the run."""
SHOWN_ROWS = 20


@dataclass(frozen=True)
class Reported:
    """A run as pages show it. What is not known is None or absent, never made up."""

    summary: Mapping[str, Any]
    """A `RunSummary` as JSON."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Its options by their flat names, values as text."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """What it was made with, by the tracked names."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """Of the names in `CURVES`."""
    ledger: Mapping[str, Any] = field(default_factory=dict)
    """What became of every row that was read; empty where no data was read yet."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """The records of data set and weights, hashes among them; empty where none were kept."""
    answers: Sequence[Mapping[str, Any]] = ()
    """Of `read_pairs`, with the tuned model's `token_f1` of each."""

    @property
    def run_id(self) -> str:
        return str(self.summary["mlflow_run_id"])

    def curve(self, name: str) -> Curve:
        """(step, value) pairs, none where nothing was tracked."""
        return self.curves.get(name, ())

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens that an optimizer step reads, 0 where that is not known."""
        tokens = self.curve("train/tokens")
        return tokens[-1][1] / (tokens[-1][0] + 1) if tokens else 0.0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that a page could show: no step, no data, no figure."""
        drawn = any(self.curves.values())
        return not (drawn or self.ledger or self.summary.get("train_seconds") is not None)


def kept_files(folders: Sequence[Path]) -> dict[str, Any]:
    """`ledger`, `inputs` and `answers` of a `Reported`, from the run's files.

    Args:
        folders: where each may lie: the run's own, or one that holds its artifacts.
    """
    answers = [
        pair | {"token_f1": token_f1([pair["output"]], [pair["tuned"]])}
        for pair in read_pairs(folders)
    ]
    ledger = _read(folders, f"{DATA_FOLDER}/{LEDGER_FILE}") or _read(folders, LEDGER_FILE)
    return {"ledger": ledger, "inputs": _read(folders, INPUTS_FILE), "answers": answers}


def from_summary(
    summary: RunSummary,
    *,
    params: Mapping[str, object],
    tags: Mapping[str, str],
    metrics: Mapping[str, float],
    curves: Mapping[str, Curve],
    folder: Path,
) -> Reported:
    """A run that has just gone through its stages."""
    as_text = {name: str(value) for name, value in params.items()}
    return Reported(
        summary.model_dump(mode="json"), as_text, tags, metrics, curves, **kept_files([folder])
    )


def best_and_worst(
    answers: Sequence[Mapping[str, Any]], count: int
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The `count` answers of the highest token F1 and the `count` of the lowest, none in both.

    Among equals, kinds of task take turns, and then the entries' order in the data decides.
    """
    turns: Counter[tuple[float, str]] = Counter()
    ranked = []
    for answer in answers:
        kind = (answer["token_f1"], answer.get("kind", ""))
        ranked.append((turns[kind], answer))
        turns[kind] += 1
    best = sorted(ranked, key=lambda one: (-one[1]["token_f1"], one[0]))
    worst = sorted(ranked, key=lambda one: (one[1]["token_f1"], one[0]))
    chosen = [answer for _, answer in best[: min(count, (len(best) + 1) // 2)]]
    rest = [answer for _, answer in worst if not any(answer is one for one in chosen)]
    return chosen, rest[:count]


def row_numbers(rows: Sequence[int]) -> str:
    """`rows 3, 5 and 9`, of many the first and how many more."""
    shown = [str(row) for row in rows[:SHOWN_ROWS]]
    more = len(rows) - len(shown)
    last = f"{more} more" if more else shown.pop()
    text = f"{', '.join(shown)} and {last}" if shown else last
    return f"row{'s' * (len(rows) != 1)} {text}"


def _read(folders: Sequence[Path], name: str) -> dict[str, Any]:
    """A JSON object, of the first folder that has the file; one that was cut off counts as none."""
    file = next((file for folder in folders if (file := folder / name).is_file()), None)
    try:
        found = read_json(file) if file else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
