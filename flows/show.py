"""`twolevers show`: what a run came to, of whatever kind it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from flows.terminal import console
from flows.views import print_steps, print_summary
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem
from twolevers.report.texts import option_text, shown
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.judged import judged_mean
from twolevers.tracking.kinds import CALLED, check_kind, go_on
from twolevers.tracking.queries import find_run, read_summary, read_written
from twolevers.tracking.run_info import RunInfo


def show(run: str, as_json: bool, published: bool = False) -> None:
    """Print a run's summary.

    Raises:
        InputError: no such run; published losses of what is no fine-tuning.
    """
    home = writable_home()
    found = check_kind(find_run(run, home, load_settings()), run, *names.LISTED)
    if found.run_id is None:
        what, way_out = "is a checkpoint of no run", "see the runs there are: twolevers runs"
        raise InputError(Problem("run", run, what, way_out))
    if published:
        check_kind(found, run, names.FINE_TUNE, where="--published")
    summary = summary_of(found)
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    elif found.kind in (names.CLASSIFY, names.EVALUATION):
        _print_other(found, summary)
    else:
        print_summary(summary, home)
        if published:
            _print_published(found, summary, home)


def summary_of(found: RunInfo) -> dict[str, Any]:
    """What the run came to, its status as it is now; partial while unfinished."""
    if found.kind != names.EVALUATION:
        return read_summary(found)
    known = {
        "mlflow_run_id": found.run_id,
        "model": found.model,
        "device": found.device,
        "hardware": found.tags.get(names.HARDWARE),
        "precision": found.precision,
        "dataset": found.params.get("dataset"),
        "scores": None,
        "judge": None,
    }
    written = read_written(found, names.EVALUATION_FILE)
    of = found.tags.get(names.EVALUATION_OF)
    return known | written | {"status": found.status, "evaluation_of": of}


def _print_other(found: RunInfo, summary: Mapping[str, Any]) -> None:
    """A classification or an evaluation: its own page once it has scores."""
    lines = {"see it again": f"twolevers show {str(found.run_id)[:8]}   (--json for a program)"}
    if not summary.get("scores"):
        _print_unfinished(found)
    elif found.kind == names.CLASSIFY:
        from flows.classify_command import print_classification

        print_classification(summary)
        return
    else:
        from flows.evaluate_command import print_evaluation
        from twolevers.tracking.evaluations import Evaluation

        fields = {name: summary[name] for name in Evaluation.model_fields if name in summary}
        print_evaluation(Evaluation.model_validate(fields))
        lines = _about_evaluation(found, judged=summary["judge"] is not None) | lines
    print_steps(lines)


def _about_evaluation(found: RunInfo, *, judged: bool) -> dict[str, str]:
    lines = {"status": found.status}
    if of := found.tags.get(names.EVALUATION_OF):
        lines["model of run"] = of
    if not judged and (since := judged_mean(found)):  # by `twolevers judge`, later
        model, mean = since
        lines["judged since"] = f"{mean:.2f}, by {model}"
    return lines


def _print_unfinished(found: RunInfo) -> None:
    """What is known of a run that has no scores on this machine."""
    console.print()
    console.rule(f"[bold]{escape(found.name)}[/bold]", align="left")
    lines = {"kind": CALLED[str(found.kind)], "status": found.status}
    if error := found.tags.get(names.ERROR):
        lines["error"] = error
    lines |= {
        "model": f"{option_text(found.model)} on {option_text(found.device)}, "
        f"{option_text(found.precision)}",
        "data set": option_text(found.params.get("dataset")),
        "started": f"{found.started:%Y-%m-%d %H:%M} UTC" if found.started else "–",
    }
    # A run of another machine has its files there, and its figures in the store.
    scored = ("final/test_", *(f"{role}/" for role in names.ROLES))
    lines |= {
        name.replace("_", " "): shown(value)
        for name, value in sorted(found.metrics.items())
        if name.startswith(scored)
    }
    lines["run"] = str(found.run_id)
    if command := go_on(found):
        lines["continue"] = command
    print_steps(lines)


def _print_published(found: RunInfo, summary: dict[str, Any], home: Home) -> None:
    from twolevers.published import SOURCE, check_losses
    from twolevers.tracking.runs import read_run_options

    options = read_run_options(home.run_folder(str(found.run_id)))
    console.print(f"\n[bold]published losses[/bold] ({SOURCE})")
    for check in check_losses(summary, options, found.tags):
        console.print(f"  {escape(str(check))}")
