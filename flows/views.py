"""How a run looks in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from flows.terminal import console
from twolevers.records import RunSummary
from twolevers.report.write import read_answers, seconds_text
from twolevers.settings import Home

SCORES = {
    "val_loss": "validation loss",
    "exact_match": "exact match",
    "token_f1": "token F1",
    "rouge_l": "ROUGE-L",
    "chrf": "chrF",
}


def print_summary(summary: RunSummary, home: Home) -> None:
    """Losses, times, scores, five answers side by side, and where to look next."""
    console.print()
    console.rule(f"[bold]{summary.model}[/bold] on {summary.hardware}", align="left")
    console.print(_figures(summary))
    if summary.base and summary.tuned:
        console.print(_scores(summary))
    answers = _answers(home.run_folder(summary.mlflow_run_id))
    if answers is not None:
        console.print(answers)
    run = summary.mlflow_run_id[:8]
    rows = {
        "checkpoint": _short(summary.checkpoint),
        "run": summary.mlflow_run_id,
        "ask it": f'twolevers generate --run {run} "What is the opposite of hot?"',
        "see it again": f"twolevers show {run}   (--json for a program)",
        "MLflow": "twolevers ui mlflow    http://127.0.0.1:5000",
        "Prefect": "twolevers ui prefect   http://127.0.0.1:4200",
    }
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", text)
    console.print(grid)


def _figures(summary: RunSummary) -> Table:
    grid = Table.grid(padding=(0, 2))
    threads = f", {summary.threads} threads" if summary.device == "cpu" else ""
    rows = {
        "data set": f"{summary.dataset}, {summary.epochs} epochs",
        "device": f"{summary.device}: {summary.hardware}{threads}, {summary.precision}",
        "two epochs": seconds_text(summary.two_epoch_seconds),
        "training": f"{seconds_text(summary.train_seconds)}, {_tokens(summary.tokens_per_second)}",
        "peak memory": _memory(summary.peak_memory_bytes),
        "train loss": f"{_number(summary.train_loss_before)} → {_number(summary.train_loss_after)}",
        "val loss": f"{_number(summary.val_loss_before)} → {_number(summary.val_loss_after)}",
    }
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", text)
    return grid


def _scores(summary: RunSummary) -> Table:
    table = Table(title="on the test split", title_justify="left", title_style="bold")
    table.add_column("score")
    table.add_column("base", justify="right")
    table.add_column("tuned", justify="right")
    for name, label in SCORES.items():
        table.add_row(
            label,
            _number(getattr(summary.base, name)),
            _number(getattr(summary.tuned, name)),
        )
    return table


def _answers(folder: Path) -> Table | None:
    answers = read_answers(folder, 5)
    if not answers:
        return None
    table = Table(title="five answers", title_justify="left", title_style="bold", show_lines=True)
    for name in ("asked", "right", "base", "tuned"):
        table.add_column(name, overflow="fold", ratio=2 if name == "asked" else 1)
    for answer in answers:
        asked = answer["instruction"] + (f"\n{answer['input']}" if answer["input"] else "")
        cells = (asked, answer["output"], answer["base"], answer["tuned"])
        table.add_row(*(_plain(_cut(cell)) for cell in cells))
    return table


def _plain(text: str) -> str:
    """Model output is shown, never read as markup."""
    return text.replace("[", r"\[")


def _cut(text: str, length: int = 120) -> str:
    text = text.strip()
    return text if len(text) <= length else text[: length - 1] + "…"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _tokens(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} tokens/s"


def _memory(value: int | None) -> str:
    return "–" if value is None else f"{value / 2**20:,.0f} MiB"


def _short(path: Path | None) -> str:
    if path is None:
        return "–"
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
