"""An evaluation as a tracked run: any model scored again, nothing trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from twolevers.errors import InputError, Problem
from twolevers.evaluation.frames import answers_frame
from twolevers.evaluation.judge import JudgeResult
from twolevers.files import write_json
from twolevers.generation.answers import read_answers
from twolevers.models.catalog import MODELS, find_model
from twolevers.models.weights import read_config
from twolevers.options import (
    DataOptions,
    FineTuneOptions,
    GenerationOptions,
    Group,
    Precision,
    TrainingOptions,
)
from twolevers.plan import flat_options, make_plan
from twolevers.records import (
    DatasetFile,
    FineTuneRun,
    Record,
    Responses,
    Role,
    Scores,
    TokenisedData,
)
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.kinds import check_model
from twolevers.tracking.queries import find_flow_run, find_run
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.run_tracker import MlflowTracker, Warn
from twolevers.tracking.runs import Inputs, kept_inputs, read_run_options
from twolevers.tracking.traces import ScoredAnswer, computed
from twolevers.tracking.tracked_run import tracked_run

G = TypeVar("G", bound=Group)
# Not the names of a fine-tuning's files: nobody is to go on with an evaluation.
ASKED_FILE = "evaluated.json"
RESULT_FILE = names.EVALUATION_FILE
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


class Evaluation(Record):
    """What an evaluation ends with."""

    mlflow_run_id: str
    what: str
    model: str
    device: str
    hardware: str
    precision: str
    dataset: str
    scores: Scores
    judge: JudgeResult | None = None


def find_evaluated(
    what: str,
    *,
    device: str,
    precision: Precision,
    dataset: str | None = None,
    weights: str | None = None,
    data: DataOptions | None = None,
    generation: GenerationOptions | None = None,
) -> Evaluated:
    """What `what` means: a model of the catalog, a run, or a checkpoint folder.

    A run's model is asked as the run asked it, on its own test split, but for what is given here.

    Args:
        dataset: other data than the run's, by default the embedded for what belongs to no run.
        weights: of a model of the catalog, local ones.

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
    asked = base.model_copy(
        update={
            "device": device,
            "precision": precision,
            "dataset": dataset or base.dataset,
            "data": _changed(base.data, data),
            "generation": _changed(base.generation, generation),
        }
    )
    return Evaluated(
        what=what,
        role="base" if base.weights == weights else "tuned",
        options=make_plan(asked, settings, data_is_kept=inputs is not None).options,
        run_id=run_id,
        dataset=inputs.dataset if inputs else None,
        data=inputs.data if inputs else None,
    )


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


@contextmanager
def evaluation_run(
    evaluated: Evaluated, *, flow_run_id: str | None, warn: Warn | None = None
) -> Iterator[FineTuneRun]:
    """Open an evaluation's run, or reopen the one of an earlier attempt of the same flow run.

    Raises:
        TwoleversError: the tracking store cannot be used.
    """
    home, settings, options = Home(), load_settings(), evaluated.options
    plan = make_plan(options, settings, data_is_kept=evaluated.data is not None)
    untold = set(TrainingOptions.model_fields) - {"seed", "batch_size"}
    before = find_flow_run(flow_run_id, home, settings) if flow_run_id else None
    with tracked_run(
        names.EVALUATION,
        f"evaluation · {evaluated.what} · {options.device}",
        asked=evaluated,
        file_name=ASKED_FILE,
        params={k: v for k, v in flat_options(options).items() if k not in untold},
        tags=_tags(evaluated, plan.device.hardware),
        flow_run_id=flow_run_id,
        reopen=before,
        warn=warn,
        stopped="Stopped. What was judged is kept; evaluate once more to have the rest.",
    ) as (run_id, folder):
        yield FineTuneRun(
            run_id=run_id,
            flow_run_id=flow_run_id,
            resumed=False,
            folder=folder,
            options=options,
            hardware=plan.device.hardware,
            threads=plan.device.threads,
        )


def note_evaluation(
    tracker: MlflowTracker,
    run: FineTuneRun,
    evaluated: Evaluated,
    dataset: DatasetFile,
    data: TokenisedData,
    responses: Responses,
    scores: Scores,
    judge: JudgeResult | None,
) -> Evaluation:
    """Keep with the run what came out: scores as metrics, answers as file and table."""
    tracker.log_dataset_input(dataset, data)
    figures = scores.model_dump(exclude={"role", "other", "by_kind"}) | scores.other
    tracker.log_metrics(
        {names.score_metric(scores.role, name): value for name, value in figures.items()}, step=0
    )
    tracker.log_table(answers_frame(responses), "responses.json")
    tracker.log_file(responses.path)
    if judge is None:  # else the judge's stage has done it, with its scores
        tracker.log_answers(
            responses.role,
            [
                ScoredAnswer(
                    one.instruction,
                    one.input,
                    one.model_response,
                    one.output,
                    computed(one.output, one.model_response),
                    one.kind,
                )
                for one in read_answers(responses)
            ],
        )
    evaluation = Evaluation(
        mlflow_run_id=run.run_id,
        what=evaluated.what,
        model=run.options.model,
        device=run.options.device,
        hardware=run.hardware,
        precision=run.options.precision,
        dataset=data.dataset,
        scores=scores,
        judge=judge,
    )
    path = run.folder / RESULT_FILE
    write_json(path, evaluation.model_dump(mode="json"))
    tracker.log_file(path)
    return evaluation


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


def _tags(evaluated: Evaluated, hardware: str) -> dict[str, str]:
    tags = {"twolevers.device": evaluated.options.device, names.HARDWARE: hardware}
    if evaluated.run_id:
        tags[names.EVALUATION_OF] = evaluated.run_id
    return tags
