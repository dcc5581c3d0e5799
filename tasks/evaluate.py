"""Scores on a split, of the base and of the tuned model by one and the same stage."""

from __future__ import annotations

from pathlib import Path

from prefect import task

from tasks.caching import stage
from tasks.kept import Kept, keep, read_kept
from twolevers.device import find_device
from twolevers.evaluation.score import score
from twolevers.models.catalog import find_model
from twolevers.records import FineTuneRun, Responses, ScoredSplit, Scores, TokenisedData


def evaluate(
    run: FineTuneRun,
    model: Path,
    data: TokenisedData,
    responses: Responses,
    split: ScoredSplit = "test",
) -> Scores:
    """Losses and answer scores of one model."""
    return read_kept(evaluate_model(run, model, data, responses, split), Scores)


@task(task_run_name="evaluate the {responses.role} model", **stage("evaluate"))
def evaluate_model(
    run: FineTuneRun, model: Path, data: TokenisedData, responses: Responses, split: ScoredSplit
) -> Kept:
    """The scores, in the run's folder."""
    options = run.options
    scores = score(
        responses.role,
        model,
        data,
        responses,
        config=find_model(options.model).config,
        device=find_device(options.device),
        precision=options.precision,
        batch_size=options.training.batch_size,
        split=split,
    )
    return keep(scores, run.folder / f"scores-{responses.role}.json")
