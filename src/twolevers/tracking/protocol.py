"""What the core may say to whoever keeps track of a run. No vendor's name stands here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd


class Tracker(Protocol):
    """Keeps what a run reports. Implementations never let a failure of theirs stop training."""

    run_id: str

    def log_params(self, params: Mapping[str, object]) -> None:
        """Flat parameters. Logged again with another value, a change is kept as a tag."""

    def log_metrics(self, metrics: Mapping[str, float], *, step: int, tokens: int = 0) -> None:
        """Metrics of one step, `tokens` seen so far. Returns at once; a value that is not finite
        becomes a tag. Metrics logged a second time for a step (after a resume) replace nothing."""

    def read_metrics(self, metrics: Iterable[str]) -> dict[str, list[tuple[int, float]]]:
        """What was logged of each metric: (step, value), steps rising, the last value of each."""

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Tags of the run."""

    def log_file(self, path: Path, folder: str = "") -> None:
        """One file, stored with the run under `folder`."""

    def log_checkpoint(self, path: Path, *, step: int, metrics: Mapping[str, float]) -> None:
        """A checkpoint folder with the metrics measured on it; stored once, or pointed to."""

    def send_soon(self) -> None:
        """What was logged so far goes out without waiting for more."""

    def log_table(self, table: pd.DataFrame, name: str) -> None:
        """A data frame, shown as a table."""

    def log_summary(self, summary: Mapping[str, Any], *, step: int) -> None:
        """The run's summary: kept in its folder, its figures tracked."""

    def set_description(self, markdown: str) -> None:
        """What a reader of the run sees first."""


class NullTracker:
    """Tracks nothing: for tests and for the bare training call that benchmarks measure."""

    def __init__(self, run_id: str = "untracked") -> None:
        self.run_id = run_id

    def log_params(self, params: Mapping[str, object]) -> None: ...

    def log_metrics(self, metrics: Mapping[str, float], *, step: int, tokens: int = 0) -> None: ...

    def read_metrics(self, metrics: Iterable[str]) -> dict[str, list[tuple[int, float]]]:
        return {name: [] for name in metrics}

    def set_tags(self, tags: Mapping[str, str]) -> None: ...

    def log_file(self, path: Path, folder: str = "") -> None: ...

    def log_checkpoint(self, path: Path, *, step: int, metrics: Mapping[str, float]) -> None: ...

    def send_soon(self) -> None: ...

    def log_table(self, table: pd.DataFrame, name: str) -> None: ...

    def log_summary(self, summary: Mapping[str, Any], *, step: int) -> None: ...

    def set_description(self, markdown: str) -> None: ...
