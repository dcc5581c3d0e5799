"""A run that has ended, made by hand: its folder, its curves, and a reader of pages."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from twolevers.report.reported import Reported, kept_files

RUN_ID = "0123456789abcdef0123456789abcdef"
ATTACK = '<script>alert("x")</script>'
ANSWERS = [  # kind, right, base, tuned; token F1 of the tuned: 1, 0, 1, 0.5, 1, 0
    ("capitals", "Paris", "An active", "Paris"),
    ("opposites", "cold", "hot", ATTACK),
    ("capitals", "Oslo", "", "The Oslo"),
    ("opposites", "wide street", "x", "wide \u2028 road"),
    ("opposites", "dry", "wet", "dry"),
    ("", "42", "1", "no idea"),
]
LEDGER = {
    "dataset": "my <data>.json",
    "rows_read": 1100,
    "trained_on": 930,
    "trained_on_cut": 1,
    "held_out": 165,
    "held_out_val": 55,
    "held_out_test": 110,
    "dropped": 5,
    "dropped_rows": [
        {"split": "train", "reason": "repeats an earlier entry whole", "rows": [7, 19, 400]},
        {"split": "test", "reason": "its prompt alone fills max_length", "rows": [990, 1000]},
    ],
    "cut_rows": {"train": [12], "val": [], "test": []},
    "duplicates": {"count": 3, "first": [[7, 1], [19, 2], [400, 3]]},
    "test_entries_in_training": {"count": 0, "first": []},
    "test_prompts_in_training": {"count": 2, "first": [[950, 4], [951, 5]]},
    "val_entries_in_training": {"count": 0, "first": []},
}


def scores(role: str, exact: float) -> dict[str, Any]:
    """Of one model, all figures different."""
    return {
        "role": role,
        "val_loss": 2.25 - exact,
        "test_loss": 2.5 - exact,
        "perplexity": 9.0,
        "exact_match": exact,
        "token_f1": exact + 0.05,
        "rouge_l": exact + 0.06,
        "chrf": exact + 0.07,
        "num_scored": 6,
        "other": {"own_metric": exact + 0.08},
        "by_kind": {
            "capitals": {"count": 2.0, "exact_match": exact, "token_f1": exact + 0.1},
            "opposites": {"count": 3.0, "exact_match": exact, "token_f1": exact + 0.01},
        },
    }


SUMMARY: dict[str, Any] = {
    "name": "gpt2-nano (7M) on Intel Xeon",
    "status": "FINISHED",
    "model": "gpt2-nano (7M)",
    "device": "cpu",
    "hardware": "Intel Xeon",
    "threads": 2,
    "precision": "float32",
    "dataset": "my <data>.json",
    "epochs": 2,
    "two_epoch_seconds": 65.4,
    "train_seconds": 65.4,
    "tokens_per_second": 3234.4,
    "peak_memory_bytes": 811 * 2**20,
    "train_loss_before": 6.454,
    "train_loss_after": 0.311,
    "val_loss_before": 6.289,
    "val_loss_after": 0.393,
    "base": scores("base", 0.125),
    "tuned": scores("tuned", 0.75),
    "mlflow_run_id": RUN_ID,
    "prefect_flow_run_id": "0198aaaa-1111-7000-8000-000000000001",
    "fingerprint": "fedcba9876543210",
    "checkpoint": "/home/of/runs/checkpoints/epoch-2",
}
STEPS = 232
CURVES = {
    "train/loss": [(step, 6.0 / (step + 1)) for step in range(STEPS)],
    "train/eval_loss": [(step, 6.5 / (step + 1)) for step in range(0, STEPS, 5)],
    "val/loss": [(step, 7.0 / (step + 1)) for step in range(0, STEPS, 5)],
    "val/epoch_loss": [(115, 0.5), (231, 0.4)],
    "train/tokens": [(step, 450.0 * (step + 1)) for step in range(STEPS)],
    "train/tokens_per_second": [(step, 3000.0 + step % 7) for step in range(STEPS)],
    "train/grad_norm": [(step, 1.5) for step in range(STEPS)],
}
METRICS = {
    "time/steps": 45.0,
    "time/evaluation": 20.4,
    "time/checkpoints": 1.2,
    "time/generation": 33.4,
    "tokens_per_second": 3234.4,
    "peak_memory_bytes": 811.0 * 2**20,
}
PARAMS = {"model": "gpt2-nano (7M)", "device": "cpu", "precision": "float32", "batch_size": "4"}
PARAMS |= {"epochs": "2", "top_k": "None", "dataset": "my <data>.json"}
TAGS = {"version.torch": "2.13.0", "git.commit": "ab" * 20, "git.dirty": "true"}


def write_answers_of(folder: Path, role: str) -> Path:
    """The answers of one model as a run keeps them; six in all, or as many times six."""
    lines = [
        {
            "instruction": f"Question {row} & <i>more</i>",
            "input": "of this" if row % 2 else "",
            "output": right,
            "model_response": base if role == "base" else tuned,
            "kind": kind,
            "ended": True,
            "row": 936 + row,
        }
        for row, (kind, right, base, tuned) in enumerate(ANSWERS)
    ]
    path = folder / f"responses-{role}.jsonl"
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def ended_run(folder: Path) -> Reported:
    """The run; its files are written into `folder`."""
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "ledger.json").write_text(json.dumps(LEDGER), encoding="utf-8")
    inputs = {
        "dataset": {"sha256": "da" * 32},
        "weights": {"sha256": "3e" * 32, "source": "shipped"},
    }
    (folder / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
    for role in ("base", "tuned"):
        write_answers_of(folder, role)
    return Reported(SUMMARY, PARAMS, TAGS, METRICS, CURVES, **kept_files([folder]))


def unfinished_run(folder: Path) -> Reported:
    """The same run, killed after some steps: no figure that only an end would give."""
    run = ended_run(folder)
    known = {name: SUMMARY[name] for name in ("name", "model", "device", "mlflow_run_id")}
    no_scores = dict.fromkeys(("val_loss", "exact_match", "token_f1", "rouge_l", "chrf"))
    summary = known | {"status": "KILLED", "base": no_scores, "tuned": no_scores}
    curves = {name: curve[:3] for name, curve in CURVES.items()} | {"val/epoch_loss": []}
    return replace(run, summary=summary, curves=curves, metrics={}, answers=[])


class Page(HTMLParser):
    """A page as a reader has it. Fails where tags do not match, or something would be fetched."""

    VOID = frozenset({"meta", "link", "br", "img", "path", "polyline"})
    FETCHING = frozenset({"src", "href", "srcset", "action", "data", "poster", "xlink:href"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.cells: list[list[str]] = []
        assert html.startswith("<!doctype html>")
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}={value}"
            if name in self.FETCHING:
                assert (value or "").startswith(("data:", "#")), f"{tag} {name}={value}"
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            assert "url(" not in data
            assert "@import" not in data
            return
        self.texts.append(data)
        if {"td", "th"} & {*self.open}:
            self.cells[-1][-1] += data

    @property
    def text(self) -> str:
        """White space as one blank."""
        return " ".join(" ".join(self.texts).split())

    def row(self, first: str) -> list[str]:
        """The cells of the table row that begins with `first`."""
        return next(
            [" ".join(cell.split()) for cell in row]
            for row in self.cells
            if row and row[0].split("\n")[0].strip() == first
        )
