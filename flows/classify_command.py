"""`twolevers classify`: starting the flow, asking a classifier, and how a run looks."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.launch import prefect_ready
from flows.terminal import console, errors
from flows.views import grid, print_steps
from twolevers.classification.data import TEXTS_FILE, read_texts
from twolevers.classification.options import ClassifyOptions, build_classify_options
from twolevers.classification.records import ClassificationSummary
from twolevers.device import find_device, find_precision
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem
from twolevers.options import flag
from twolevers.settings import load_settings
from twolevers.tracking import names
from twolevers.tracking.classify_runs import CLASSIFICATIONS
from twolevers.tracking.inputs import DATA_FOLDER
from twolevers.tracking.kinds import check_kind, go_on, no_checkpoint
from twolevers.tracking.queries import find_run, read_summary
from twolevers.tracking.run_info import RunInfo

ASKED = ("device", "precision")
"""Options that asking a classifier takes; the others are of training."""
IMPORTED = ("flows.classify", "torch._dynamo", "matplotlib.figure", "sklearn.metrics")


def run_classification(given: Mapping[str, Any], as_json: bool, resume: str | None) -> None:
    """Run the flow with progress shown, then print what came out.

    Args:
        resume: the run to go on with, instead of a new one.

    Raises:
        InputError: before anything is started, for what can be seen by then.
    """
    home = writable_home()
    options = build_classify_options(given)
    plan, resume = CLASSIFICATIONS.plan_of_command(options, resume)
    if resume:
        options = plan.options  # all of the run's own

    def prepare() -> None:
        resolved = plan.options
        what = f"Continuing {resume}" if resume else "Classifying"
        console.print(
            f"{what}: [bold]{plan.model.name}[/bold] on {plan.device.label}, "
            f"{resolved.precision}; {resolved.training.epochs} epochs of "
            f"{escape(resolved.dataset)}, {resolved.training.train} trained"
        )

    with prefect_ready(home, prepare, IMPORTED):
        from flows.classify import classify

        arguments = {name: getattr(options, name) for name in ClassifyOptions.model_fields}
        summary = classify(**arguments, resume_from=resume)
    print_classification(summary.model_dump(mode="json"), as_json)


def ask_classifier(run: str, texts: Sequence[str], given: Mapping[str, Any], as_json: bool) -> None:
    """Print the label of each text and how likely it is; without texts, what the run came to.

    Raises:
        InputError: no such run, one without a classifier, an empty text, an option of training.
    """
    if unused := [name for name in given if name not in ASKED]:
        what, way_out = (
            "is of training, and this run is trained",
            "leave it out, or leave out --run",
        )
        raise InputError([Problem(flag(name), given[name], what, way_out) for name in unused])
    found = find_run(run, writable_home(), load_settings(), kind=names.CLASSIFY)
    check_kind(found, run, names.CLASSIFY, where="--run")
    if not texts:
        summary = read_summary(found) if found.run_id else {}
        if not summary.get("scores"):
            what = f"has no figures: {f'it is {found.status}' if found.run_id else 'it is no run'}"
            way_out = "choose from: twolevers runs --kind classify"
            if command := go_on(found):
                way_out = f"go on with it: {command}, or {way_out}"
            raise InputError(Problem("--run", run, what, way_out))
        print_classification(summary, as_json)
        return
    from twolevers.classification.predict import TextClassifier

    device = find_device(given.get("device", "auto"))
    precision = find_precision(given.get("precision", "float32"), device)
    classifier = TextClassifier(_checkpoint(found, run), device=device, precision=precision)
    predictions = classifier.predict(texts)
    if as_json:
        rows = [{"text": t, **asdict(p)} for t, p in zip(texts, predictions, strict=True)]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for text, prediction in zip(texts, predictions, strict=True):
        shown = text if len(texts) > 1 else ""
        print(f"{prediction.label}\t{prediction.probability:.3f}\t{shown}".rstrip("\t"))
    num_cut = sum(prediction.was_cut for prediction in predictions)
    if num_cut:
        about = classifier.about
        errors.print(f"{num_cut} cut to {about.max_length} tokens: {about.cut}", style="dim")


def _checkpoint(found: RunInfo, run: str) -> Path:
    if found.checkpoint is None:
        raise no_checkpoint(found, run, "--run")
    return found.checkpoint


def print_classification(summary: Mapping[str, Any], as_json: bool = False) -> None:
    """Figures, scores by split, the confusion matrix, and chapter 6's accuracies as published.

    Args:
        summary: a `ClassificationSummary` as JSON.
    """
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    from twolevers.published import CHAPTER_6_SOURCE
    from twolevers.report.classification import (
        REPORT_FILE,
        SCORES_FILE,
        figures_of,
        published_beside,
        score_rows,
    )

    known = {name: summary[name] for name in ClassificationSummary.model_fields}
    found = ClassificationSummary.model_validate(known)
    folder = writable_home().run_folder(found.mlflow_run_id)
    console.print()
    console.rule(f"[bold]{found.model}[/bold] on {escape(found.hardware)}", align="left")
    console.print(grid({"status": found.status, **figures_of(found)}))
    table = Table(title="scores", title_justify="left", title_style="bold")
    for name in ("score", "train", "val", "test"):
        table.add_column(name, justify="left" if name == "score" else "right")
    for row in score_rows(found):
        table.add_row(*(row[name] for name in ("score", "train", "val", "test")))
    console.print(table)
    if (folder / SCORES_FILE).is_file() and len(found.labels) <= 8:
        console.print(_confusion(folder / SCORES_FILE))
    console.print("[bold]published, not measured here[/bold]")
    other = "; other data than this run's, unless it is the chapter's"
    console.print(f"  {CHAPTER_6_SOURCE}{other}", style="dim")
    for one in published_beside(found.model):
        console.print(
            f"  {one.model}, {one.trained}: test accuracy {one.accuracy:.4f}, {one.minutes:.2f} min"
        )
    run = found.mlflow_run_id
    steps = {"checkpoint": str(found.checkpoint), "run": run}
    if (folder / REPORT_FILE).is_file():
        steps["report"] = str(folder / REPORT_FILE)
    steps["ask it"] = f"twolevers classify --run {run[:8]} {_example(folder)}"
    steps["see it again"] = f"twolevers classify --run {run[:8]}   (--json for a program)"
    print_steps(steps)


def _example(folder: Path) -> str:
    """A text of the test split, as an argument of the command."""
    file = folder / DATA_FOLDER / TEXTS_FILE
    texts = read_texts(file, "test")[:20] if file.is_file() else []
    text = min(texts, key=len, default="TEXT")
    return "-- " * text.startswith("-") + shlex.quote(text)  # else it would be an option


def _confusion(file: Path) -> Table:
    stored = json.loads(file.read_text(encoding="utf-8"))
    table = Table(title="test split: right ↓ answered →", title_justify="left", title_style="bold")
    table.add_column("")
    for label in stored["labels"]:
        table.add_column(escape(label), justify="right")
    for label, row in zip(stored["labels"], stored["splits"]["test"]["confusion"], strict=True):
        table.add_row(escape(label), *(f"{count:,}" for count in row))
    return table
