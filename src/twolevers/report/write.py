"""What a finished run leaves to look at: summary, tables, picture; in its folder and tracked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twolevers.evaluation.frames import responses_frame, scores_frame
from twolevers.files import read_json
from twolevers.fingerprint import workload_fingerprint
from twolevers.records import (
    FineTuneRun,
    Responses,
    Role,
    RunSummary,
    Scores,
    TokenisedData,
    TrainingResult,
)
from twolevers.report.pictures import loss_curve
from twolevers.report.texts import describe
from twolevers.tracking.pages import flow_run_page
from twolevers.tracking.protocol import Tracker

SUMMARY_FILE = "summary.json"
PICTURE_FILE = "loss-curve.png"


def write_report(
    run: FineTuneRun,
    data: TokenisedData,
    training: TrainingResult,
    responses: Sequence[Responses],
    scores: Sequence[Scores],
    tracker: Tracker,
) -> RunSummary:
    """Summary, tables and loss curve of a run that went through all its stages."""
    answered = {answer.role: answer for answer in responses}
    scored = {score.role: score for score in scores}
    summary = summarise(run, data, training, scored)
    tracker.log_summary(summary.model_dump(mode="json"), step=training.steps)
    picture = loss_curve(
        run.folder / PICTURE_FILE,
        train=tracker.read_metric("train/eval_loss"),
        val=tracker.read_metric("val/loss"),
        tokens_per_step=training.tokens / max(training.steps, 1),
        title=f"{run.options.model} on {run.hardware}, {data.dataset}",
    )
    tracker.log_table(responses_frame(answered["base"], answered["tuned"]), "responses.json")
    tracker.log_table(scores_frame(scored["base"], scored["tuned"]), "scores.json")
    for file in (picture, *(answer.path for answer in responses)):
        tracker.log_file(file)
    tracker.log_metrics(times(training), step=training.steps)
    tracker.set_description(
        describe(summary, {"flow run in Prefect": flow_run_page(run.flow_run_id)})
    )
    return summary


def summarise(
    run: FineTuneRun,
    data: TokenisedData,
    training: TrainingResult,
    scored: Mapping[Role, Scores],
) -> RunSummary:
    """The run in one record."""
    options = run.options
    return RunSummary(
        name=f"{options.model} on {run.hardware}",
        status="FINISHED",
        model=options.model,
        device=options.device,
        hardware=run.hardware,
        threads=run.threads,
        precision=options.precision,
        dataset=data.dataset,
        epochs=training.epochs,
        two_epoch_seconds=None if run.resumed else training.two_epoch_seconds,
        train_seconds=training.train_seconds,
        tokens_per_second=training.tokens_per_second,
        peak_memory_bytes=training.peak_memory_bytes,
        train_loss_before=training.train_loss_before,
        train_loss_after=training.train_loss_after,
        val_loss_before=training.val_loss_before,
        val_loss_after=training.val_loss_after,
        base=scored["base"],
        tuned=scored["tuned"],
        mlflow_run_id=run.run_id,
        prefect_flow_run_id=run.flow_run_id,
        fingerprint=workload_fingerprint(options, data.data_sha256),
        checkpoint=training.checkpoint,
    )


def times(training: TrainingResult) -> dict[str, float]:
    """Where the run's time went, by the tracked names; the summary holds the rest."""
    return {
        "time/steps": training.step_seconds,
        "time/evaluation": training.eval_seconds,
        "time/checkpoints": training.checkpoint_seconds,
        "best_val_loss": training.best_val_loss,
    }


def read_answers(folder: Path, count: int) -> list[dict[str, Any]]:
    """`count` answers of both models side by side, of as many kinds of task as there are."""
    files = {role: folder / f"responses-{role}.jsonl" for role in ("base", "tuned")}
    if not all(file.is_file() for file in files.values()):
        return []
    base, tuned = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for file in files.values()
    )
    pairs = [
        {**answer, "base": before["model_response"], "tuned": answer["model_response"]}
        for before, answer in zip(base, tuned, strict=True)
    ]
    first_of_kind = {
        pair.get("kind") or index: index for index, pair in reversed(list(enumerate(pairs)))
    }
    chosen = sorted(first_of_kind.values())[:count]
    chosen += [index for index in range(len(pairs)) if index not in chosen][: count - len(chosen)]
    return [pairs[index] for index in chosen]


def read_summary_file(folder: Path) -> RunSummary:
    """The summary that `write_report` left in a run's folder."""
    return RunSummary.model_validate(read_json(folder / SUMMARY_FILE))
