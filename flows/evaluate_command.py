"""`twolevers evaluate`: the flow with its progress shown, then what came out."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.launch import prefect_ready
from flows.terminal import console
from flows.views import grid
from twolevers.environment import writable_home
from twolevers.evaluation.judge_asking import check_judge
from twolevers.evaluation.judge_options import JudgeOptions
from twolevers.files import read_json
from twolevers.plan import options_from
from twolevers.report.texts import score_label, seconds_text, shown
from twolevers.settings import load_settings
from twolevers.tracking import names
from twolevers.tracking.evaluated import find_evaluated
from twolevers.tracking.evaluations import Evaluation, figures


def run_evaluation(
    model: str, given: dict[str, Any], eval_split: str, judge: JudgeOptions | None, as_json: bool
) -> None:
    """Run the flow and print the scores.

    Args:
        given: options by their flat names.
        eval_split: what of the data is scored.
        judge: who scores the answers, where somebody is to.

    Raises:
        InputError: before anything is started, for what can be seen by then.
    """
    options = options_from(given, load_settings())
    arguments = {
        "device": options.device,
        "precision": options.precision,
        "dataset": options.dataset if "dataset" in options.model_fields_set else None,
        "weights": options.weights,
        "data": options.data if "data" in options.model_fields_set else None,
        "generation": options.generation if "generation" in options.model_fields_set else None,
    }
    found = find_evaluated(model, **arguments, eval_split=eval_split)
    judge = check_judge(judge) if judge else None
    # A program that reads the JSON finds nothing else on standard output.
    quiet = redirect_stdout(sys.stderr) if as_json else nullcontext()
    home = writable_home()
    with quiet, prefect_ready(home):
        from flows.evaluate import evaluate

        evaluation = evaluate(model, **arguments, eval_split=found.split, judge=judge)
    if as_json:
        whole = read_json(home.run_folder(evaluation.mlflow_run_id) / names.EVALUATION_FILE)
        print(json.dumps(whole, indent=2))
    else:
        print_evaluation(evaluation)


def print_evaluation(evaluation: Evaluation) -> None:
    """Every score, what it is of, and the judge's."""
    scores, judge = evaluation.scores, evaluation.judge
    console.print()
    console.rule(f"[bold]{escape(evaluation.what)}[/bold], nothing trained", align="left")
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in figures(scores, evaluation.split).items():
        if name not in ("num_scored", "seconds"):
            table.add_row(score_label(name), shown(value))
    if judge and (mean := judge.sets[scores.role].mean):
        table.add_row(f"judge, {escape(judge.judge.model)}", f"{mean.mean:.2f}")
    console.print(table)
    lines = {
        "model": f"{evaluation.model} on {evaluation.hardware}, {evaluation.precision}",
        "data set": evaluation.dataset,
        "entries": _entries(evaluation),
    }
    if judge:
        of_set = judge.sets[scores.role]
        lines["judge"] = (
            f"{of_set.mean or 'no score'}, {of_set.num_scored} of {of_set.num_answers} scored"
            + (f"; stopped by {judge.stopped}" if judge.stopped else "")
            + (f"; asked without {', '.join(judge.left_out)}" if judge.left_out else "")
        )
        if judge.unscored_reply:
            lines["a reply without a score"] = judge.unscored_reply
    if scores.seconds is not None:
        lines["scoring"] = seconds_text(scores.seconds)
    lines["run"] = evaluation.mlflow_run_id
    console.print(grid(lines))
    if judge and judge.advice:
        console.print(judge.advice)


def _entries(evaluation: Evaluation) -> str:
    """How many were scored, of what, and what a reader must know of them."""
    count, split = f"{evaluation.scores.num_scored:,}", evaluation.split
    text = f"all {count}" if split == "all" else f"the {split} split, {count}"
    for reason, dropped in evaluation.dropped.items():
        text += f"; {dropped:,} left out ({reason})"
    if evaluation.num_trained_on:
        text += f"; the run was trained on {evaluation.num_trained_on:,} of them"
    return text
