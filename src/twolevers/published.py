"""Figures published elsewhere. They are shown as published, never mixed into measured cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twolevers.data.catalog import DATASETS
from twolevers.options import FineTuneOptions, TrainingOptions

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


@dataclass(frozen=True)
class PublishedLoss:
    """A loss of the chapter's own run: gpt2-medium, seed 123, nats per token."""

    name: str
    key: str
    """Of a run's summary."""
    value: float
    tolerance: float
    """Largest relative difference."""
    why: str
    """Why the tolerance is not nought."""


CHAPTER_7_LOSSES = (
    PublishedLoss(
        "validation loss before training",
        "val_loss_before",
        3.7619,
        0.025,
        "the same rows and weights; the chapter's CPU and GPU alone differ by 1 in 100",
    ),
    PublishedLoss(
        "training loss before training",
        "train_loss_before",
        3.8259,
        0.10,
        "the chapter measures other rows of the split",
    ),
    PublishedLoss(
        "validation loss after two epochs",
        "val_loss_after",
        0.657,
        0.10,
        "batches come in another order",
    ),
    PublishedLoss(
        "training loss after two epochs",
        "train_loss_after",
        0.299,
        0.30,
        "the chapter measures other rows of the split, and batches come in another order",
    ),
)


@dataclass(frozen=True)
class LossCheck:
    """A run's loss beside the chapter's."""

    published: PublishedLoss
    measured: float | None
    does_not_apply: str | None
    """What about the run is not the chapter's recipe; None where all of it is."""

    @property
    def verdict(self) -> str:
        if self.does_not_apply or self.measured is None:
            return "does not apply"
        apart = abs(self.measured - self.published.value) / self.published.value
        return "holds" if apart <= self.published.tolerance else "fails"

    def __str__(self) -> str:
        name, value = self.published.name, self.published.value
        if self.verdict == "does not apply":
            reason = self.does_not_apply or "the run has none"
            return f"{name} {value:g}: does not apply ({reason})"
        return (
            f"{name} {value:g}: {self.verdict} ({self.measured:.3f}, "
            f"within {self.published.tolerance:.1%} wanted: {self.published.why})"
        )


def check_losses(
    summary: Mapping[str, Any], options: FineTuneOptions, tags: Mapping[str, str]
) -> list[LossCheck]:
    """A run of the chapter's own recipe against the chapter's losses.

    Args:
        summary: the run's, `RunSummary` as JSON.
        options: resolved.
        tags: as tracked; hashes and sources of data and weights stand there.
    """
    reason = _no_recipe_of_chapter_7(options, tags)
    return [LossCheck(loss, summary.get(loss.key), reason) for loss in CHAPTER_7_LOSSES]


def _no_recipe_of_chapter_7(options: FineTuneOptions, tags: Mapping[str, str]) -> str | None:
    if options.model != "gpt2-medium (355M)":
        return f"the chapter's figures are of gpt2-medium (355M), this is {options.model}"
    if tags.get("twolevers.data_sha256") != DATASETS["chapter7"].sha256:
        return "the data is not the chapter's"
    if not tags.get("twolevers.weights_source", "").startswith("hub:"):
        return "the weights are not those of the hub"
    recipe = FineTuneOptions(training=TrainingOptions(learning_rate=5e-5))
    for name, chapters in (("training", recipe.training), ("data", recipe.data)):
        own = getattr(options, name).model_dump()
        other = [
            f"{key} {own[key]}" for key, value in chapters.model_dump().items() if own[key] != value
        ]
        if other:
            return f"another recipe: {', '.join(other)}"
    return None


@dataclass(frozen=True)
class PublishedAccuracy:
    """A test accuracy that somebody else measured."""

    model: str
    trained: str
    accuracy: float
    minutes: float


CHAPTER_6_SOURCE = (
    "Build a Large Language Model (From Scratch), chapter 6 notebooks and bonus material: "
    "SMS spam, one A100"
)
CHAPTER_6_ACCURACIES = (
    PublishedAccuracy("gpt2-small (124M)", "last_block", 0.9500, 0.28),
    PublishedAccuracy("gpt2-small (124M)", "all", 0.9667, 0.69),
    PublishedAccuracy("gpt2-small (124M)", "lora", 0.9667, 0.75),
    PublishedAccuracy("gpt2-medium (355M)", "last_block", 0.8467, 0.75),
    PublishedAccuracy("gpt2-large (774M)", "last_block", 0.9667, 1.50),
    PublishedAccuracy("gpt2-xl (1558M)", "last_block", 0.9833, 2.83),
    PublishedAccuracy("gpt2-xl (1558M)", "all", 0.9867, 8.12),
)
"""Classifying the test split of 300 messages as spam or not; lora of rank 16."""
