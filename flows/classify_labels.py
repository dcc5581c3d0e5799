"""`twolevers classify --instruction`: the labels that a fine-tuned model answers, scored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.terminal import console
from twolevers.device import find_device, find_precision
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem
from twolevers.evaluation.labels import LabelScores, label_scores
from twolevers.files import write_json
from twolevers.generation.answers import read_pairs
from twolevers.models.catalog import find_model
from twolevers.models.fetch import fetch_weights
from twolevers.options import flag
from twolevers.progress import Silent
from twolevers.report.classification_pictures import confusion_picture
from twolevers.report.texts import shown
from twolevers.settings import Home, load_settings
from twolevers.tracking.kinds import check_model
from twolevers.tracking.mlflow_tracker import attach_run
from twolevers.tracking.queries import find_run
from twolevers.tracking.runs import kept_inputs, read_run_options

LABELS_FILE, PICTURES = "labels.json", "labels"
ASKED = ("device", "precision")
"""Options that the command takes here; the others are of training a classifier."""


def show_label_scores(
    run: str, texts: Sequence[str], given: Mapping[str, Any], as_json: bool
) -> None:
    """Score the labels of a fine-tuning's base and tuned model; kept with the run, then printed.

    Raises:
        InputError: no such run, none on this machine, data without a closed set of labels, or an
            option that is of training.
    """
    problems = [
        Problem(flag(name), value, "is of training a classifier", "leave it out")
        for name, value in given.items()
        if name not in ASKED
    ]
    if texts:
        what = "with --instruction the run's own test split is asked"
        problems.append(Problem("TEXT", texts[0], what, "ask a model by `twolevers generate`"))
    if problems:
        raise InputError(problems)
    home = writable_home()
    found = check_model(find_run(run, home, load_settings()), run, where="--run")
    inputs = kept_inputs(found.folder) if found.folder and found.run_id else None
    if found.run_id is None or found.folder is None or inputs is None or not found.checkpoint:
        what = "has no data on this machine"
        raise InputError(Problem("--run", run, what, "choose from `twolevers runs`"))
    trained = read_run_options(found.folder)
    device = find_device(given.get("device", "auto"))
    precision = find_precision(given.get("precision", "float32"), device)
    base = fetch_weights(trained.model, trained.weights, home, Silent()).path
    pairs = read_pairs([found.folder])
    scores = {
        role: label_scores(
            path,
            inputs.data,
            config=find_model(trained.model).config if role == "base" else None,
            device=device,
            precision=precision,
            answers={pair["row"]: pair[role] for pair in pairs} or None,
            progress=Silent(),
        )
        for role, path in (("base", base), ("tuned", found.checkpoint))
    }
    stored = {role: [asdict(one) for one in found] for role, found in scores.items()}
    _keep(home, found.run_id, found.folder, stored, scores["tuned"])
    if as_json:
        print(json.dumps(stored, indent=2, ensure_ascii=False))
        return
    for base_scores, tuned_scores in zip(scores["base"], scores["tuned"], strict=True):
        _print(base_scores, tuned_scores)


def _keep(
    home: Home, run_id: str, folder: Path, stored: dict[str, Any], tuned: Sequence[LabelScores]
) -> None:
    """Scores and pictures, in the run's folder and in MLflow."""
    write_json(folder / LABELS_FILE, stored)
    with attach_run(home=home, settings=load_settings(), run_id=run_id) as tracker:
        tracker.log_file(folder / LABELS_FILE)
        for number, one in enumerate(tuned, start=1):
            method, scores = next(iter(one.by_method.items()))
            picture = confusion_picture(
                folder / PICTURES / f"confusion-{number}.png",
                scores.confusion,
                one.labels,
                title=f"{one.kind or 'all entries'}, tuned, by {method}",
            )
            tracker.log_file(picture, PICTURES)


def _print(base: LabelScores, tuned: LabelScores) -> None:
    kind = f"{base.kind}: " if base.kind else ""
    labels = ", ".join(escape(label) for label in base.labels)
    console.print(f"\n[bold]{escape(kind)}[/bold]{labels}")
    console.print(
        f"{base.num} test entries; always the most frequent label: {base.majority_accuracy:.3f}",
        style="dim",
    )
    table = Table()
    table.add_column("label chosen by")
    for name in ("accuracy", "balanced accuracy", "macro F1", "calibration error"):
        table.add_column(f"{name}\nbase → tuned", justify="right")
    for method, before in base.by_method.items():
        after = tuned.by_method[method]
        table.add_row(
            method,
            *(
                f"{shown(getattr(before, name, None))} → {shown(getattr(after, name, None))}"
                for name in ("accuracy", "balanced_accuracy", "macro_f1", "calibration_error")
            ),
        )
    console.print(table)
    if base.num_no_label or tuned.num_no_label:
        console.print(
            f"free answers that are no label: base {base.num_no_label}, tuned {tuned.num_no_label}",
            style="dim",
        )
    method, scores = next(iter(tuned.by_method.items()))
    confusion = Table(title=f"tuned, {method}: right ↓ answered →", title_justify="left")
    confusion.add_column("")
    for label in tuned.labels:
        confusion.add_column(escape(label), justify="right")
    for label, row in zip(tuned.labels, scores.confusion, strict=True):
        confusion.add_row(escape(label), *map(str, row))
    console.print(confusion)
