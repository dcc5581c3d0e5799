"""What the core says about how far it is; who shows it, and how, is not its affair."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told about every unit of work. Calls come often and must be cheap."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """A stage begins (`download`, `fine-tune`); it has `total` units, or nobody knows."""

    def advance(self, done: int, **figures: float) -> None:
        """`done` units are done in all; figures as named: `loss`, `tokens_per_second`."""

    def note(self, text: str) -> None:
        """One line that a reader wants to keep: an evaluation, a checkpoint."""

    def finish(self) -> None:
        """The stage is over."""


class Silent:
    """Shows nothing."""

    def start(self, stage: str, total: int | None, unit: str) -> None: ...

    def advance(self, done: int, **figures: float) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self) -> None: ...
