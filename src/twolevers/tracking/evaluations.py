"""An evaluation as a tracked run: any model scored again, nothing trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from pydantic import Field

from twolevers.data.tokenise import dropped_rows
from twolevers.evaluation.frames import answers_frame
from twolevers.evaluation.judge import JudgeResult
from twolevers.evaluation.seen import num_trained_on
from twolevers.files import write_json
from twolevers.generation.answers import read_answers
from twolevers.options import TrainingOptions
from twolevers.plan import flat_options, make_plan
from twolevers.records import (
    DatasetFile,
    FineTuneRun,
    Record,
    Responses,
    ScoredSplit,
    Scores,
    TokenisedData,
)
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.evaluated import Evaluated
from twolevers.tracking.queries import find_flow_run
from twolevers.tracking.run_tracker import MlflowTracker, Warn
from twolevers.tracking.traces import ScoredAnswer, computed
from twolevers.tracking.tracked_run import tracked_run

# Not the names of a fine-tuning's files: nobody is to go on with an evaluation.
ASKED_FILE = "evaluated.json"
RESULT_FILE = names.EVALUATION_FILE


class Evaluation(Record):
    """What an evaluation ends with."""

    mlflow_run_id: str
    what: str
    model: str
    device: str
    hardware: str
    precision: str
    dataset: str
    split: ScoredSplit = "test"
    """What of the data was scored; `scores.test_loss` is the loss on that."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Entries left out of it when the data was read, by the reason."""
    num_trained_on: int | None = None
    """Scored entries that the run was trained on; None where that is not known."""
    scores: Scores
    judge: JudgeResult | None = None

    def in_short(self) -> Self:
        """For Prefect to keep: without the scores per kind of task, which `evaluation.json`
        holds."""
        return self.model_copy(update={"scores": self.scores.in_short()})


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
        params={k: v for k, v in flat_options(options).items() if k not in untold}
        | {"eval_split": evaluated.split},
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
    tracker.log_metrics(
        {
            names.score_metric(scores.role, k): v
            for k, v in figures(scores, evaluated.split).items()
        },
        step=0,
    )
    trained_on = evaluated.trained_on
    seen = num_trained_on(trained_on, data, evaluated.split) if trained_on else None
    if seen is not None:
        tracker.log_metrics({"num_trained_on": seen}, step=0)
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
        split=evaluated.split,
        dropped=dropped_rows(data, evaluated.split),
        num_trained_on=seen,
        scores=scores,
        judge=judge,
    )
    path = run.folder / RESULT_FILE
    write_json(path, evaluation.model_dump(mode="json"))
    tracker.log_file(path)
    return evaluation


def figures(scores: Scores, split: ScoredSplit) -> dict[str, float]:
    """Every score and how long scoring took, by name; the loss by that of the split that it is
    of."""
    found: dict[str, float] = {}
    for name, value in scores.model_dump(exclude={"role", "other", "by_kind"}).items():
        if value is not None:
            found[f"{split}_loss" if name == "test_loss" else name] = value
    return found | scores.other


def _tags(evaluated: Evaluated, hardware: str) -> dict[str, str]:
    tags = {"twolevers.device": evaluated.options.device, names.HARDWARE: hardware}
    if evaluated.run_id:
        tags[names.EVALUATION_OF] = evaluated.run_id
    return tags
