"""What is to be evaluated: any model, on what, and how."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar, get_args

from twolevers.data.catalog import DATASETS
from twolevers.errors import InputError, Problem
from twolevers.models.catalog import MODELS, find_model
from twolevers.models.weights import read_config
from twolevers.options import (
    DataOptions,
    FineTuneOptions,
    GenerationOptions,
    Group,
    Precision,
)
from twolevers.plan import make_plan
from twolevers.records import DatasetFile, EvalSplit, Record, Role, ScoredSplit, TokenisedData
from twolevers.settings import Home, load_settings
from twolevers.tracking.inputs import Inputs
from twolevers.tracking.kinds import check_model
from twolevers.tracking.queries import find_run
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.runs import kept_inputs, read_run_options

G = TypeVar("G", bound=Group)
EVAL_SPLITS: tuple[EvalSplit, ...] = get_args(EvalSplit)
ID_SIGNS = frozenset("0123456789abcdef-")


class Evaluated(Record):
    """What is to be evaluated, on what, and how; nothing left to look up."""

    what: str
    """As it was asked for."""
    role: Role
    """`base` for a model of the catalog, `tuned` for a run's or a checkpoint."""
    options: FineTuneOptions
    """Resolved, the checkpoint as `weights`. Nothing is trained: the training options count for
    the batch of the losses and the seed alone."""
    run_id: str | None = None
    """Of the run whose model it is."""
    dataset: DatasetFile | None = None
    data: TokenisedData | None = None
    """The run's own data as it was read; None where other data is asked for."""
    split: ScoredSplit = "test"
    """What of the data is scored."""
    trained_on: TokenisedData | None = None
    """Of the run whose model it is, where it is still there."""

    @property
    def whole(self) -> bool:
        """The data is read to be scored alone, none of it to be trained on."""
        return self.data is None and self.split == "all"


def find_evaluated(
    what: str,
    *,
    device: str,
    precision: Precision,
    dataset: str | None = None,
    weights: str | None = None,
    data: DataOptions | None = None,
    generation: GenerationOptions | None = None,
    eval_split: str = "auto",
) -> Evaluated:
    """What `what` means: a model of the catalog, a run, or a checkpoint folder.

    A run's model is asked as the run asked it, on its own test split, but for what is given here.

    Args:
        dataset: other data than the run's, by default the embedded for what belongs to no run.
        weights: of a model of the catalog, local ones.
        eval_split: of `EVAL_SPLITS`; `auto` is all of a file that is not the run's own, and the
            test split of any other data.

    Raises:
        InputError: nothing is meant by it, or an option cannot be used.
    """
    settings = load_settings()
    try:
        base, kept, run_id = (
            FineTuneOptions(model=find_model(what).name, weights=weights),
            None,
            None,
        )
    except InputError as no_model:
        if weights is not None:
            problem = Problem("--weights", weights, f"{what!r} has its own", "leave it out")
            raise InputError(problem) from None
        try:
            found = find_run(what, Home(), settings)
        except InputError as no_run:
            if ID_SIGNS.issuperset(what.strip().lower()):  # no model is called like that
                raise
            raise InputError([*no_run.problems, *no_model.problems]) from None
        base, kept = _of_run(found, what)
        run_id = found.run_id
    inputs = kept if dataset is None and data is None else None
    changed = _changed(base.data, data)
    if inputs is None:  # nothing is trained on it
        changed = changed.model_copy(update={"allow_leakage": True})
    asked = base.model_copy(
        update={
            "device": device,
            "precision": precision,
            "dataset": dataset or base.dataset,
            "data": changed,
            "generation": _changed(base.generation, generation),
        }
    )
    options = make_plan(asked, settings, data_is_kept=inputs is not None).options
    return Evaluated(
        what=what,
        role="base" if base.weights == weights else "tuned",
        options=options,
        run_id=run_id,
        dataset=inputs.dataset if inputs else None,
        data=inputs.data if inputs else None,
        split=_split(eval_split, others=options.dataset not in (base.dataset, *DATASETS)),
        trained_on=kept.data if kept else None,
    )


def _split(asked: str, *, others: bool) -> ScoredSplit:
    """What is scored.

    Args:
        others: the data is a file that is not the run's own: nobody trained on a part of it.
    """
    if asked == "auto":
        return "all" if others else "test"
    for split in EVAL_SPLITS:
        if split == asked and split != "auto":
            return split
    way_out = f"choose one of: {', '.join(EVAL_SPLITS)}"
    raise InputError(Problem("--eval-split", asked, "no such split", way_out))


def _of_run(found: RunInfo, what: str) -> tuple[FineTuneOptions, Inputs | None]:
    """How a run's or a checkpoint's model is asked, and the data that the run kept."""
    checkpoint = check_model(found, what).checkpoint
    assert checkpoint is not None
    if found.run_id is None or found.folder is None:
        return FineTuneOptions(model=_model_of(checkpoint), weights=str(checkpoint)), None
    options = read_run_options(found.folder)
    return options.model_copy(update={"weights": str(checkpoint)}), kept_inputs(found.folder)


def _changed(base: G, given: G | None) -> G:
    """`base` with what was set in `given`, and no default of it."""
    changes = given.model_dump(include=given.model_fields_set) if given else {}
    return base.model_copy(update=changes)


def _model_of(checkpoint: Path) -> str:
    """Full name of the catalog's model that has a checkpoint's sizes."""
    config = read_config(checkpoint)
    name = next((name for name, entry in MODELS.items() if entry.config == config), None)
    if name is None:
        raise InputError(
            Problem(
                "checkpoint", str(checkpoint), "has the sizes of no model here",
                f"give one of {', '.join(MODELS)}",
            )
        )  # fmt: skip
    return name
