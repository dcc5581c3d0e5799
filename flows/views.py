"""How a run looks in the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.addresses import web_addresses
from flows.terminal import console
from twolevers.plan import Plan
from twolevers.report.texts import SCORE_LABELS, memory_text, seconds_text, shown
from twolevers.report.write import REPORT_FILE, read_answers
from twolevers.settings import Home


def print_plan(plan: Plan, resume: str | None = None, rerun_of: str | None = None) -> None:
    """What is about to run."""
    options = plan.options
    what = f"Continuing {resume}" if resume else "Fine-tuning"
    what = f"Repeating {rerun_of}" if rerun_of else what
    console.print(
        f"{what}: [bold]{plan.model.name}[/bold] on {plan.device.label}, {options.precision}; "
        f"{options.training.epochs} epochs of {_plain(options.dataset)}"
    )


def print_summary(summary: Mapping[str, Any], home: Home) -> None:
    """Losses, times, scores, five answers side by side, and where to look next.

    Args:
        summary: a `RunSummary` as JSON; what an unfinished run lacks is None or absent.
    """
    run_id = str(summary["mlflow_run_id"])
    console.print()
    hardware = summary.get("hardware") or summary["device"]
    console.rule(f"[bold]{summary['model']}[/bold] on {hardware}", align="left")
    console.print(grid(_figures(summary)))
    if summary["status"] == "FINISHED":
        console.print(_scores(summary))
    answers = read_answers(home.run_folder(run_id), 5)
    if answers:
        console.print(_answers(answers))
    report = home.run_folder(run_id) / REPORT_FILE
    print_steps(_next_steps(summary, run_id[:8], answers, report))


def _figures(summary: Mapping[str, Any]) -> dict[str, str]:
    known = summary["device"] == "cpu" and summary.get("threads")
    threads = f", {known} threads" if known else ""
    hardware = summary.get("hardware") or ""
    figures = {
        "status": summary["status"],
        "data set": f"{summary.get('dataset') or '–'}, {summary.get('epochs') or '–'} epochs",
        "device": f"{summary['device']}: {hardware}{threads}, {summary['precision']}",
        "two epochs": seconds_text(summary["two_epoch_seconds"]),
        "training": f"{seconds_text(summary['train_seconds'])}, "
        f"{shown(summary['tokens_per_second'], '{:,.0f} tokens/s')}",
        "peak memory": memory_text(summary["peak_memory_bytes"]),
    }
    for split in ("train", "val"):
        before, after = (shown(summary.get(f"{split}_loss_{when}")) for when in ("before", "after"))
        figures[f"{split} loss"] = f"{before} → {after}"
    return figures


def _next_steps(
    summary: Mapping[str, Any], run: str, answers: list[dict[str, Any]], report: Path
) -> dict[str, str]:
    steps = {"checkpoint": _short(summary["checkpoint"]), "run": str(summary["mlflow_run_id"])}
    if report.is_file():
        steps["report"] = _short(str(report))
    if summary["status"] in ("KILLED", "FAILED"):
        steps["continue"] = f"twolevers fine-tune --resume {run}"
    if summary["checkpoint"]:
        steps["ask it"] = f"twolevers generate --run {run} {_question(answers)}"
    addresses = web_addresses()
    return steps | {
        "see it again": f"twolevers show {run}   (--json for a program)",
        "MLflow": addresses.get("mlflow", "twolevers ui mlflow    then http://127.0.0.1:5000"),
        "Prefect": addresses.get("prefect", "twolevers ui prefect   then http://127.0.0.1:4200"),
    }


def grid(rows: Mapping[str, str]) -> Table:
    """Names and their texts, one below the other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", _plain(text))
    return grid


def print_steps(rows: Mapping[str, str]) -> None:
    """As `grid`, for what is to be copied: paths and commands, never broken by us."""
    width = max(map(len, rows))
    for name, text in rows.items():
        console.print(f"[bold]{name:<{width}}[/bold]  {_plain(text)}", soft_wrap=True)


def _scores(summary: Mapping[str, Any]) -> Table:
    table = Table(title="on the test split", title_justify="left", title_style="bold")
    table.add_column("score")
    for role in ("base", "tuned"):
        table.add_column(role, justify="right")
    for name, label in SCORE_LABELS.items():
        table.add_row(label, *(shown(summary[role][name]) for role in ("base", "tuned")))
    return table


def _question(answers: list[dict[str, Any]]) -> str:
    """A question of the test split, as arguments of `twolevers generate`."""
    if not answers:
        return '"…"'
    asked = next((answer for answer in answers if not answer["input"]), answers[0])
    if not asked["instruction"]:  # plain text asks nothing
        return '"…"'
    text = f" --input {shlex.quote(asked['input'])}" if asked["input"] else ""
    return shlex.quote(asked["instruction"]) + text


def _answers(answers: list[dict[str, Any]]) -> Table:
    table = Table(title="five answers", title_justify="left", title_style="bold", show_lines=True)
    for name in ("asked", "right", "base", "tuned"):
        table.add_column(name, overflow="fold", ratio=2 if name == "asked" else 1)
    for answer in answers:
        asked = answer["instruction"] + (f"\n{answer['input']}" if answer["input"] else "")
        cells = [_cut(asked), *(_in_one_line(answer[name]) for name in ("output", "base", "tuned"))]
        table.add_row(*(_plain(cell) for cell in cells))
    return table


def _in_one_line(text: str) -> str:
    """An answer on one line, its line breaks shown: a base model writes many."""
    return _cut("⏎".join(text.strip().split("\n")), 90)


def _plain(text: str) -> str:
    """Model output is shown, never read as markup."""
    return escape(text)


def _cut(text: str, length: int = 120) -> str:
    text = text.strip()
    return text if len(text) <= length else text[: length - 1] + "…"


def _short(path: str | None) -> str:
    if path is None:
        return "–"
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
