"""What passes between stages: a path and a small frozen record, never a tensor or a list of rows.

Records are plain pydantic models, so that they travel as JSON (Prefect's results, the run's
folder) and stay below 10 kB. Paths are absolute. All SHA-256 are lower-case hex. Scores are
fractions from 0 to 1, losses nats per supervised token, times seconds, memory bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from twolevers.options import FineTuneOptions, TaskOptions

SplitName = Literal["train", "val", "test"]
ScoredSplit = Literal[SplitName, "all"]
EvalSplit = Literal["auto", ScoredSplit]
Role = Literal["base", "tuned"]


class Record(BaseModel):
    """Base of all records: frozen, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class OpenRun(Record):
    """A run, opened: what every stage after the fetches needs to know of it."""

    run_id: str
    """MLflow's; the run's folder bears it too."""
    flow_run_id: str | None
    """Prefect's, of the flow run that opened or reopened it."""
    resumed: bool
    """Continued by request: its time fills no cell of the run-time table."""
    folder: Path
    options: TaskOptions
    """Resolved: see `plan.Plan`."""
    hardware: str
    """The device's own name."""
    threads: int


class FineTuneRun(OpenRun):
    """One fine-tuning, opened."""

    options: FineTuneOptions


class DatasetFile(Record):
    """A data file on this disk, as it was fetched or found."""

    name: str
    """What the user asked for: a catalog name, a path or an address."""
    path: Path
    sha256: str
    num_bytes: int
    verified: str
    """How the content was verified: `pinned sha256`, `shipped`, `local file`, `not verified`."""


class WeightsFolder(Record):
    """Base weights on this disk, in the Hugging Face layout."""

    model: str
    """Full name in the catalog."""
    path: Path
    """Folder with `model.safetensors` (one file, or an index and its shards)."""
    sha256: str
    """Of the weights file (of the shards' hashes, where there are several)."""
    source: str
    """`shipped`, `local`, or `hub:REPO@REVISION`."""
    verified: str
    """As in `DatasetFile`, or `hub's own hash`."""


class TokenisedData(Record):
    """A folder with `rows.arrow` (entries and tokens), the rows of each split, `ledger.json`."""

    path: Path
    sha256: str
    """Hash of everything that decides the content: data, settings that matter, core version."""
    data_sha256: str
    dataset: str
    shape: str = ""
    """The shape that was recognised, and its fields: `chat (messages)`."""
    num_rows: int
    num_train: int
    num_val: int
    num_test: int
    num_dropped: int
    num_cut: int
    """Rows of the training split that were cut to `max_length`."""
    train_tokens: int
    longest: int
    """Tokens, both of the training split, end of text counted."""
    num_duplicates: int = 0
    """Entries that repeat an earlier one whole."""
    num_equal_prompts: int = 0
    """Test entries whose prompt stands in the training split too, with another output."""
    num_leaked: int = 0
    """Test entries that stand in the training split whole."""


class TrainedModel(Record):
    """What training left, whatever was trained: the checkpoint, losses and timings."""

    checkpoint: Path
    sha256: str
    """Of the checkpoint's `model.safetensors`."""
    steps: int
    epochs: int
    train_loss_before: float
    val_loss_before: float
    train_loss_after: float
    val_loss_after: float
    """Losses before and after on `eval_batches` batches of each split, as the chapters print."""
    train_seconds: float
    """Wall clock of the training call, evaluations included, checkpoints not (chapter 7)."""
    step_seconds: float
    """The part of it in optimizer steps."""
    eval_seconds: float
    checkpoint_seconds: float
    tokens: int
    """Tokens read in optimizer steps, padding never counted."""
    tokens_per_second: float
    peak_memory_bytes: int


class TrainingResult(TrainedModel):
    """What fine-tuning left; its `checkpoint` is the newest, the fine-tuned model."""

    best_checkpoint: Path
    best_val_loss: float
    two_epoch_seconds: float | None
    """`train_seconds` where exactly two epochs ran undisturbed, else None."""
    resumed: bool


class Responses(Record):
    """Answers of one model to a split, in a run the test split: JSON Lines of `instruction`,
    `input`, `output`, `model_response`, `kind`, `ended`, `row`."""

    role: Role
    path: Path
    sha256: str
    num_responses: int
    new_tokens: int
    seconds: float


class Scores(Record):
    """Scores of one model on the test split, plus its validation loss. An evaluation may be of
    another split: it says which, and `test_loss` is then the loss on that."""

    role: Role
    val_loss: float | None
    """Over the whole validation split; None where another split than the test split is scored."""
    test_loss: float
    perplexity: float
    """exp(test_loss)."""
    exact_match: float
    token_f1: float
    rouge_l: float
    chrf: float
    num_scored: int
    other: dict[str, float] = {}
    """Metrics added later, which have no field of their own."""
    by_kind: dict[str, dict[str, float]] = {}
    """Per kind of task where the data names it: `count`, loss, perplexity and the answer scores."""
    seconds: float | None = None
    """Wall clock of losses and scores, generation not counted; None of older runs."""

    def in_short(self) -> Self:
        """Without the kinds of task, of which there may be many."""
        return self.model_copy(update={"by_kind": {}})


class RunSummary(Record):
    """What a run ends with, and what `twolevers show --json` prints."""

    name: str
    status: str
    """RUNNING, FINISHED, FAILED or KILLED."""
    model: str
    device: str
    hardware: str
    threads: int
    precision: str
    dataset: str
    epochs: int
    two_epoch_seconds: float | None
    train_seconds: float | None
    tokens_per_second: float | None
    peak_memory_bytes: int | None
    train_loss_before: float | None
    train_loss_after: float | None
    val_loss_before: float | None
    val_loss_after: float | None
    """Before and after on `eval_batches` batches, as the chapter prints them."""
    base: Scores | None
    tuned: Scores | None
    mlflow_run_id: str
    prefect_flow_run_id: str | None
    fingerprint: str | None
    checkpoint: Path | None

    def in_short(self) -> Self:
        """For Prefect to keep: without the scores per kind of task, which `summary.json` holds."""
        base, tuned = (one.in_short() if one else None for one in (self.base, self.tuned))
        return self.model_copy(update={"base": base, "tuned": tuned})
