"""What a part of the benchmarks comes to: one line of the table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Result:
    """Two ways of doing the same work, measured side by side in one run."""

    work: str
    against: str
    ours: float
    """Median of our readings, in `unit`."""
    theirs: float
    """Median of the other's readings."""
    unit: str
    runs: int
    """Readings that each median is of."""
    more_is_better: bool = False
    """True for a rate (`tokens/s`), False for a time."""
    target: float | None = None
    """Least `ratio` that the project wants."""
    most: float | None = None
    """Or, for what must stay small: the most that `ours` may be, in `unit`."""
    notes: list[str] = field(default_factory=list)
    """What belongs beside the figure: peak memory, losses, what stood for what."""

    @property
    def ratio(self) -> float:
        """How many times as fast as the other; for a cost (`most` is set) how much of it."""
        if self.most is not None:
            return self.ours / self.theirs
        return self.ours / self.theirs if self.more_is_better else self.theirs / self.ours

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.most is not None:
            return self.ours <= self.most
        return None if self.target is None else self.ratio >= self.target

    def as_json(self) -> dict[str, object]:
        return {
            "work": self.work,
            "against": self.against,
            "ratio": round(self.ratio, 3),
            "ours": round(self.ours, 4),
            "theirs": round(self.theirs, 4),
            "unit": self.unit,
            "runs": self.runs,
        }


def median_of(readings: Sequence[float]) -> float:
    return statistics.median(readings)
