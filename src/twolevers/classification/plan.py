"""From what was asked for to what will run: the levers are resolved as fine-tuning does it."""

from __future__ import annotations

from dataclasses import dataclass

from twolevers.classification.options import ClassifyOptions
from twolevers.classification.records import LabelledData
from twolevers.device import Device
from twolevers.fingerprint import fingerprint_of
from twolevers.models.catalog import ModelEntry
from twolevers.options import DataOptions, FineTuneOptions, RunOptions, TrainingOptions
from twolevers.plan import LEVERS, make_plan
from twolevers.settings import Settings

TASK = "classification"


@dataclass(frozen=True)
class ClassifyPlan:
    """A classification that can start: options with nothing left to look up."""

    options: ClassifyOptions
    model: ModelEntry
    device: Device

    @property
    def run_name(self) -> str:
        """`classify · gpt2-small (124M) · cpu · lora`."""
        trained = self.options.training.train
        return f"classify · {self.model.name} · {self.device.name} · {trained}"


def make_classify_plan(
    asked: ClassifyOptions, settings: Settings, *, data_is_kept: bool = False
) -> ClassifyPlan:
    """Resolve both levers and check what can be checked without reading data or weights.

    Args:
        data_is_kept: the data is that of an earlier run and is not looked for.

    Raises:
        InputError: every problem at once.
    """
    plan = make_plan(
        FineTuneOptions(
            **{name: getattr(asked, name) for name in LEVERS},
            data=DataOptions(max_length=asked.data.max_length),
            training=TrainingOptions(learning_rate=asked.training.learning_rate),
            run=RunOptions(threads=asked.run.threads),
        ),
        settings,
        data_is_kept=data_is_kept,
    )
    found = plan.options
    rate = {"learning_rate": found.training.learning_rate}
    resolved = asked.model_copy(
        update={
            **{name: getattr(found, name) for name in LEVERS},
            "training": asked.training.model_copy(update=rate),
        }
    )
    return ClassifyPlan(resolved, plan.model, plan.device)


def workload_parts(options: ClassifyOptions, labelled: LabelledData) -> dict[str, object]:
    """What makes two timings of a classification comparable, by name; as `fingerprint_parts`."""
    data, training = options.data, options.training
    trained = training.train
    return {
        "task": TASK,
        "data": labelled.data_sha256.lower(),
        "columns": [labelled.text_column, labelled.label_column],
        "split": f"70/10/20, shuffled by {training.seed}",
        "balanced": data.balanced,
        "shuffle": "each epoch",
        "drop_last": training.drop_last,
        "epochs": training.epochs,
        "batch_size": training.batch_size,
        "max_length": data.max_length,
        "cut": data.cut,
        "trained_parameters": f"lora, rank {training.lora_rank}" if trained == "lora" else trained,
        "eval_every": training.eval_every,
        "eval_batches": training.eval_batches,
    }


def classify_fingerprint(options: ClassifyOptions, labelled: LabelledData) -> str:
    """The fingerprint as 16 hex digits."""
    return fingerprint_of(workload_parts(options, labelled))
