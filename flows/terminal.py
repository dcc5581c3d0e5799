"""What a person sees in the terminal: bars where there is one, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tasks.progress import LogLines, shown_by

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


class Bar:
    """One stage's bar in the shared display."""

    def __init__(self, display: Progress) -> None:
        self.display = display
        self.task: TaskID | None = None
        self.stage, self.scale = "", 1.0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        self.finish()
        self.stage = stage
        self.scale = 1e-6 if unit == "bytes" else 1.0
        self.task = self.display.add_task(
            stage,
            total=None if total is None else total * self.scale,
            unit="MB" if unit == "bytes" else unit,
            figures="",
        )

    def advance(self, done: int, **figures: float) -> None:
        if self.task is None:
            return
        parts = []
        if "loss" in figures:
            parts.append(f"loss {figures['loss']:.3f}")
        if "tokens_per_second" in figures:
            parts.append(f"{figures['tokens_per_second']:,.0f} tokens/s")
        completed = round(done * self.scale, 1)
        self.display.update(self.task, completed=completed, figures="  ".join(parts))

    def note(self, text: str) -> None:
        self.display.console.print(text, style="dim", markup=False)

    def finish(self) -> None:
        if self.task is not None:
            self.display.stop_task(self.task)


@contextmanager
def shown() -> Iterator[None]:
    """Progress of every stage in the block goes to the terminal."""
    if not console.is_terminal:
        token = shown_by.set(lambda: LogLines(_plain_line))
        try:
            yield
        finally:
            shown_by.reset(token)
        return
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as display:
        token = shown_by.set(lambda: Bar(display))
        try:
            yield
        finally:
            shown_by.reset(token)


def _plain_line(text: str) -> None:
    print(text, file=sys.stdout, flush=True)
