"""One class of options: it feeds the command line, the form and the environment.

Every field has a description with its unit; every bound stands here and nowhere else. The
groups are the boxes of the form; on the command line and in the environment the fields lie
flat (`--learning-rate`, `TWOLEVERS_LEARNING_RATE`), so their names are unique.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from twolevers.data.prompt import PROMPT_STYLES
from twolevers.errors import InputError, Problem, did_you_mean

FROM_SETTINGS = "from settings"
DEVICES = ("auto", "cpu", "mps", "cuda", *(f"cuda:{index}" for index in range(8)))
Precision = Literal["auto", "float32", "bfloat16", "float16"]


def unit(name: str) -> dict[str, Any]:
    """What a field counts in, shown wherever its description is."""
    return {"unit": name}


def _shown_in_form(schema: dict[str, Any]) -> None:
    """A form shows descriptions, but neither units nor bounds, and sorts its fields by position."""
    for position, field in enumerate(schema["properties"].values()):
        field["position"] = position
        notes = [note for note in (field.get("unit"), bounds_text(field)) if note]
        if notes:
            field["description"] += f" [{', '.join(notes)}]"


def bounds_text(field: Mapping[str, Any]) -> str:
    """`1 or more`, `over 0, at most 1`, from a field's JSON schema."""
    forms = (
        ("minimum", "{:,} or more"),
        ("exclusiveMinimum", "over {:,}"),
        ("maximum", "at most {:,}"),
        ("exclusiveMaximum", "below {:,}"),
    )
    bounds = {
        name: value for part in (field, *field.get("anyOf", ())) for name, value in part.items()
    }
    return ", ".join(form.format(bounds[name]) for name, form in forms if name in bounds)


class Group(BaseModel):
    """A box of the form."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        # By its own name, as fields outside the boxes are shown and messages call it.
        field_title_generator=lambda name, _: name,
        json_schema_extra=_shown_in_form,
    )


def _counted(description: str, name: str) -> Any:
    """A field that is 1 or more of a unit."""
    return Field(ge=1, description=description, json_schema_extra=unit(name))


# Options of several tasks. Each gives them its own default and place in the form.
Epochs = Annotated[int, _counted("passes over the training split", "epochs")]
LearningRate = Annotated[
    float | None,
    Field(gt=0, description="AdamW's; by default the model's own (5e-5, as the chapter)"),
]
WeightDecay = Annotated[float, Field(ge=0, description="AdamW's")]
DropLast = Annotated[bool, Field(description="leave out an epoch's last short batch")]
EvalEvery = Annotated[int, _counted("evaluate both splits this often", "steps")]
EvalBatches = Annotated[int, _counted("batches of each split an evaluation reads", "batches")]
Deterministic = Annotated[bool, Field(description="the same bits twice on CUDA too; slower there")]
Threads = Annotated[int | None, _counted("CPU threads; by default PyTorch's choice", "threads")]
CheckDevice = Annotated[
    bool, Field(description="compare one batch's loss with the CPU's before training elsewhere")
]


class TaskOptions(Group):
    """What every task can be told."""

    model: str = Field(FROM_SETTINGS, description="the model lever: name, short name or size")
    device: str = Field(
        FROM_SETTINGS, description="the device lever: auto, cpu, mps, cuda, cuda:0 …"
    )
    precision: Precision = Field(
        "auto", description="auto: bfloat16 where the hardware computes in it, else float32"
    )
    dataset: str
    weights: str | None = Field(
        None, description="local folder or file with the base weights instead of the catalog's"
    )


class DataOptions(Group):
    """How entries become tokens."""

    map: str | None = Field(
        None,
        description="columns that have other names, as instruction=question output=answer; by "
        "default the shape is told by the columns",
    )
    prompt_style: str = Field(
        "alpaca",
        description="prompt style: "
        + ", ".join(f"{style.name} ({style.description})" for style in PROMPT_STYLES.values()),
        json_schema_extra={"enum": list(PROMPT_STYLES)},
    )
    loss_on: Literal["everything", "response"] = Field(
        "everything", description="tokens that carry loss: everything (the chapter's) or response"
    )
    max_length: int = Field(
        1024,
        ge=2,
        description="entries are cut to this many tokens",
        json_schema_extra=unit("tokens"),
    )
    split: Literal["file order", "shuffled"] = Field(
        "file order", description="85/10/5 in file order (the chapter's), or shuffled by the seed"
    )
    drop_duplicates: bool = Field(
        False, description="drop entries that repeat an earlier one whole"
    )
    allow_leakage: bool = Field(
        False, description="train although test entries also stand whole in the training split"
    )


class TrainingOptions(Group):
    """Chapter 7's recipe unless told otherwise."""

    epochs: Epochs = 2
    batch_size: int = Field(
        8, ge=1, description="entries a batch", json_schema_extra=unit("entries")
    )
    gradient_accumulation_steps: int = Field(
        1,
        ge=1,
        description="batches an optimizer step, weighted by their tokens",
        json_schema_extra=unit("batches"),
    )
    learning_rate: LearningRate = None
    weight_decay: WeightDecay = 0.1
    lr_schedule: Literal["constant", "cosine"] = Field("constant", description="after warm-up")
    warmup_steps: int = Field(
        0, ge=0, description="linear warm-up", json_schema_extra=unit("steps")
    )
    gradient_clip: float | None = Field(
        None, gt=0, description="largest gradient norm; by default no clipping"
    )
    dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability of dropping an activation",
        json_schema_extra=unit("probability"),
    )
    drop_last: DropLast = True
    eval_every: EvalEvery = 5
    eval_batches: EvalBatches = 5
    checkpoint_every: int | None = Field(
        None,
        ge=1,
        description="checkpoint this often besides each epoch; by default not",
        json_schema_extra=unit("steps"),
    )
    seed: int = Field(123, ge=0, lt=2**32, description="order of batches, dropout, sampling")
    gradient_checkpointing: bool = Field(
        False, description="compute activations twice to hold fewer: slower, smaller"
    )
    deterministic: Deterministic = False


class GenerationOptions(Group):
    """How answers are drawn."""

    max_new_tokens: int = Field(
        256, ge=1, description="longest answer", json_schema_extra=unit("tokens")
    )
    temperature: float = Field(0.0, ge=0, description="0: greedy")
    top_k: int | None = Field(
        None, ge=1, description="draw from the k likeliest tokens", json_schema_extra=unit("tokens")
    )
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="draw from the likeliest tokens of this probability",
        json_schema_extra=unit("probability"),
    )
    generation_batch_size: int = Field(
        64, ge=1, description="prompts answered at once", json_schema_extra=unit("prompts")
    )


class RunOptions(Group):
    """What the run keeps and which machine parts it uses."""

    threads: Threads = None
    keep_checkpoints: int = Field(
        1,
        ge=1,
        description="epoch checkpoints kept, best and newest apart",
        json_schema_extra=unit("checkpoints"),
    )
    check_memory: bool = Field(
        True, description="refuse to train what the forecast says does not fit in memory"
    )
    check_device: CheckDevice = True


class FineTuneOptions(TaskOptions):
    """Everything a fine-tuning can be told. The two levers come first."""

    dataset: str = Field(
        "embedded",
        description="catalog name, local path or https address (JSON, JSON Lines, CSV, TSV, "
        "Parquet)",
    )
    data: DataOptions = DataOptions()
    training: TrainingOptions = TrainingOptions()
    generation: GenerationOptions = GenerationOptions()
    run: RunOptions = RunOptions()


G = TypeVar("G", bound=Group)


def option_fields(
    options: type[Group] = FineTuneOptions,
) -> Iterator[tuple[str | None, str, FieldInfo]]:
    """Every option as (group or None, name, field), in the order of the form."""
    for name, field in options.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Group):
            for inner, inner_field in field.annotation.model_fields.items():
                yield name, inner, inner_field
        else:
            yield None, name, field


def flag(name: str) -> str:
    """`--learning-rate` of `learning_rate`."""
    return "--" + name.replace("_", "-")


def build_options(
    given: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> FineTuneOptions:
    """Flat values to options: command line over environment; None means not given.

    Raises:
        InputError: every value that is out of bounds, of the wrong type or unknown, at once.
    """
    return parse_options(FineTuneOptions, given, environ)


def parse_options(kind: type[G], given: Mapping[str, Any], environ: Mapping[str, str]) -> G:
    """As `build_options`, for whatever class of options."""
    known = {name: group for group, name, _ in option_fields(kind)}
    problems = [
        Problem(flag(name), value, f"no such option{did_you_mean(name, known)}", "see --help")
        for name, value in given.items()
        if name not in known
    ]
    nested: dict[str, Any] = {}
    for name, group in known.items():
        value = given.get(name)
        if value is None:
            value = environ.get(f"TWOLEVERS_{name.upper()}") or None
        if value is not None:
            (nested.setdefault(group, {}) if group else nested)[name] = value
    try:
        options = kind.model_validate(nested)
    except ValidationError as error:
        problems += [_problem(fault, kind) for fault in error.errors()]
    if problems:
        raise InputError(problems)
    return options


def _problem(fault: Any, kind: type[Group]) -> Problem:
    """A pydantic fault in our words: the option, its value, what it takes."""
    name = str(fault["loc"][-1]) if fault["loc"] else "options"
    message = fault["msg"][0].lower() + fault["msg"][1:]
    fields = {inner: field for _, inner, field in option_fields(kind)}
    help_text = (fields[name].description or "") if name in fields else "see --help"
    return Problem(flag(name), fault["input"], message, f"it is: {help_text}")
