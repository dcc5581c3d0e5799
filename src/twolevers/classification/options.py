"""What a classification can be told: as `twolevers.options`, with chapter 6's recipe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from twolevers.options import (
    CheckDevice,
    Deterministic,
    DropLast,
    Epochs,
    EvalBatches,
    EvalEvery,
    Group,
    LearningRate,
    TaskOptions,
    Threads,
    WeightDecay,
    parse_options,
    unit,
)

CutRule = Literal["keep the start", "keep the end", "keep both ends"]
Trained = Literal["head", "last_block", "all", "lora"]
DATASET = "messages"
"""The embedded data set."""


class LabelledDataOptions(Group):
    """How a column of texts and a column of labels become tokens."""

    text_column: str | None = Field(
        None, description="column of the texts; by default guessed: text, sms, message, review …"
    )
    label_column: str | None = Field(
        None, description="column of the labels; by default guessed: label, class, category …"
    )
    header: bool = Field(
        True,
        description="the first row of a CSV or TSV names its columns; without, they are 1, 2 …",
    )
    balanced: bool = Field(
        True, description="as many texts of every label as the rarest has, drawn by the seed"
    )
    max_length: int = Field(
        1024,
        ge=2,
        description="texts are cut to this many tokens",
        json_schema_extra=unit("tokens"),
    )
    cut: CutRule = Field("keep the start", description="what stays of a longer text")


class ClassifierTrainingOptions(Group):
    """Chapter 6's recipe unless told otherwise."""

    train: Trained = Field(
        "last_block",
        description="what is trained: head (the new layer alone), last_block (with the last block "
        "and the final norm: the chapter's), all, lora (low-rank updates of every layer)",
    )
    epochs: Epochs = 5
    batch_size: int = Field(8, ge=1, description="texts a step", json_schema_extra=unit("texts"))
    learning_rate: LearningRate = None
    weight_decay: WeightDecay = 0.1
    drop_last: DropLast = True
    lora_rank: int = Field(16, ge=1, description="rank of the updates of lora")
    lora_alpha: float = Field(
        16.0, gt=0, description="the updates of lora count alpha / rank times"
    )
    eval_every: EvalEvery = 50
    eval_batches: EvalBatches = 5
    seed: int = Field(
        123, ge=0, lt=2**32, description="balancing, split, the new layers, order of batches"
    )
    deterministic: Deterministic = False


class ClassifierRunOptions(Group):
    """Which machine parts the run uses."""

    threads: Threads = None
    check_device: CheckDevice = True


class ClassifyOptions(TaskOptions):
    """Everything a classification can be told. The two levers come first."""

    dataset: str = Field(
        DATASET,
        description="messages (embedded), a local path or an https address (CSV, TSV, Parquet, "
        "JSON, JSON Lines)",
    )
    data: LabelledDataOptions = LabelledDataOptions()
    training: ClassifierTrainingOptions = ClassifierTrainingOptions()
    run: ClassifierRunOptions = ClassifierRunOptions()


def build_classify_options(
    given: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> ClassifyOptions:
    """Flat values to options, as `twolevers.options.build_options`.

    Raises:
        InputError: every value that is out of bounds, of the wrong type or unknown, at once.
    """
    return parse_options(ClassifyOptions, given, environ)
