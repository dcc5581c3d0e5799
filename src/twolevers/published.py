"""Figures published elsewhere. They are shown as published, never mixed into measured cells."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "Build a Large Language Model (From Scratch), chapter 7 notebook, float32"
CHAPTER_7_MINUTES: dict[str, dict[str, float]] = {
    "gpt2-small (124M)": {
        "M3 MacBook Air CPU": 5.74,
        "M3 MacBook Air GPU": 3.73,
        "L4": 0.69,
        "A100": 0.39,
    },
    "gpt2-medium (355M)": {
        "M3 MacBook Air CPU": 15.78,
        "M3 MacBook Air GPU": 10.77,
        "L4": 1.83,
        "A100": 0.86,
    },
}
"""Two epochs of instruction fine-tuning on 1,100 entries, by model and device [min]."""


@dataclass(frozen=True)
class PublishedTable:
    """A run-time table that somebody else measured."""

    source: str
    minutes: dict[str, dict[str, float]]
    """By model, then by device."""

    @property
    def devices(self) -> list[str]:
        return list(dict.fromkeys(device for row in self.minutes.values() for device in row))


CHAPTER_7 = PublishedTable(SOURCE, CHAPTER_7_MINUTES)
