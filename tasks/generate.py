"""Answers to a split, of the base and of the tuned model by one and the same stage."""

from __future__ import annotations

from pathlib import Path

from prefect import task

from tasks.caching import stage
from tasks.progress import stage_progress
from twolevers.device import find_device
from twolevers.generation.respond import respond
from twolevers.models.catalog import find_model
from twolevers.records import FineTuneRun, Responses, Role, ScoredSplit, TokenisedData


@task(task_run_name="generate with the {role} model", **stage("generate"))
def generate(
    run: FineTuneRun, role: Role, model: Path, data: TokenisedData, split: ScoredSplit = "test"
) -> Responses:
    """The model's answers, as JSON Lines in the run's folder."""
    options = run.options
    with stage_progress() as progress:
        return respond(
            role,
            model,
            data,
            options.generation,
            config=find_model(options.model).config,
            device=find_device(options.device),
            precision=options.precision,
            seed=options.training.seed,
            output=run.folder / f"responses-{role}.jsonl",
            progress=progress,
            asked=split,
        )
