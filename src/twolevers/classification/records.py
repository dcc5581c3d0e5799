"""What passes between the stages of a classification; see `twolevers.records`."""

from __future__ import annotations

from pathlib import Path

from twolevers.classification.options import ClassifyOptions
from twolevers.records import OpenRun, Record, SplitName, TrainedModel


class ClassificationRun(OpenRun):
    """One classification, opened."""

    options: ClassifyOptions


class LabelledData(Record):
    """A folder with `texts.parquet`: row number, split, label, text and tokens of each text."""

    path: Path
    sha256: str
    """Hash of everything that decides the content: data, settings that matter, core version."""
    data_sha256: str
    dataset: str
    text_column: str
    label_column: str
    labels: tuple[str, ...]
    """In order: label `i` is column `i` of the head and of every table."""
    majority: str
    """The training split's most frequent label (the first of them in order)."""
    num_rows: int
    """Rows of the file."""
    num_dropped: int
    """Rows left out to balance the labels."""
    num_train: int
    num_val: int
    num_test: int
    num_cut: int
    """Texts that were cut, of all splits."""
    num_repeated: int
    """Test texts that stand in the training split too, whatever their label."""
    num_rare: int = 0
    """Labels with fewer than three texts, which some split lacks."""
    longest: int
    """Tokens, before any cutting."""
    train_tokens: int


class ClassifierResult(TrainedModel):
    """What training a classifier left. Losses in nats a text."""

    num_trained: int
    """Parameters that training may change, the head's among them."""
    num_parameters: int
    """Of body and head, what lora adds left out."""


class SplitScores(Record):
    """Scores of a classifier on one split; see `classification.metrics`."""

    split: SplitName
    num: int
    loss: float
    """Nats a text."""
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    calibration_error: float
    majority_accuracy: float
    """Accuracy of always answering the training split's most frequent label."""


class ClassifierScores(Record):
    """Scores on the three splits; the tables lie in the file."""

    path: Path
    """JSON: by split, the confusion matrix and the reliability table."""
    splits: tuple[SplitScores, ...]


class ClassificationSummary(Record):
    """What a classification ends with, and what `twolevers classify --run RUN --json` prints."""

    name: str
    task: str
    status: str
    model: str
    device: str
    hardware: str
    threads: int
    precision: str
    dataset: str
    labels: tuple[str, ...]
    trained: str
    num_trained: int
    num_parameters: int
    epochs: int
    train_seconds: float
    tokens_per_second: float
    peak_memory_bytes: int
    train_loss_before: float
    train_loss_after: float
    val_loss_before: float
    val_loss_after: float
    scores: dict[SplitName, SplitScores]
    data: LabelledData
    mlflow_run_id: str
    prefect_flow_run_id: str | None
    fingerprint: str | None
    checkpoint: Path
