"""Which of two answers a person found better: a JSON Lines file that can be trained on later.

A line holds `prompt`, `chosen` and `rejected`, the fields that preference training goes by, as
texts; beside them the entry, both models' names and the time.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

FILE_NAME = "preferences.jsonl"


@dataclass(frozen=True)
class Preference:
    """One choice."""

    prompt: str
    """As the models read it, rendered."""
    chosen: str
    rejected: str
    chosen_model: str
    rejected_model: str
    instruction: str
    input: str = ""
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """In UTC, ISO 8601."""


def keep_preference(path: Path, preference: Preference) -> None:
    """Adds a line, in one write: whoever adds at the same time gets a line of their own.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(preference), ensure_ascii=False) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode("utf-8", "replace"))
    finally:
        os.close(handle)


def read_preferences(path: Path) -> list[Preference]:
    """What was kept, the oldest first; nothing where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="\n") as file:
        return [Preference(**json.loads(line)) for line in file]
