"""What a finished run leaves to look at: summary, tables, picture and pages; in its folder and
tracked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twolevers.evaluation.frames import responses_frame, scores_frame
from twolevers.files import read_json
from twolevers.fingerprint import workload_fingerprint
from twolevers.generation.answers import read_pairs
from twolevers.plan import flat_options
from twolevers.records import (
    FineTuneRun,
    Responses,
    Role,
    RunSummary,
    Scores,
    TokenisedData,
    TrainingResult,
)
from twolevers.report.charts import charts_html
from twolevers.report.data_page import run_data_html
from twolevers.report.pages import write_page
from twolevers.report.pictures import loss_curve
from twolevers.report.reported import CURVES, from_summary
from twolevers.report.run_page import run_html
from twolevers.report.texts import describe
from twolevers.tracking.pages import flow_run_page
from twolevers.tracking.protocol import Tracker
from twolevers.versions import environment_tags

SUMMARY_FILE = "summary.json"
PICTURE_FILE = "loss-curve.png"
REPORT_FILE = "report.html"
CHARTS_FILE = "charts.html"
DATA_FILE = "data.html"


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
    curves = tracker.read_metrics(CURVES)
    picture = loss_curve(
        run.folder / PICTURE_FILE,
        train=curves["train/eval_loss"],
        val=curves["val/loss"],
        tokens_per_step=training.tokens / max(training.steps, 1),
        title=f"{run.options.model} on {run.hardware}, {data.dataset}",
    )
    tracker.log_table(responses_frame(answered["base"], answered["tuned"]), "responses.json")
    tracker.log_table(scores_frame(scored["base"], scored["tuned"]), "scores.json")
    timed = times(training, responses, scores)
    tracker.log_metrics(timed, step=training.steps)
    tracker.set_description(
        describe(summary, {"flow run in Prefect": flow_run_page(run.flow_run_id)})
    )
    reported = from_summary(
        summary,
        params=flat_options(run.options),
        tags=environment_tags(),
        metrics=timed,
        curves=curves,
        folder=run.folder,
    )
    page = write_page(run.folder / REPORT_FILE, run_html(reported))
    kept = data.model_copy(update={"path": run.folder / "data"})
    data_page = write_page(run.folder / DATA_FILE, run_data_html(kept))
    with TemporaryDirectory() as folder:
        charts = write_page(Path(folder) / CHARTS_FILE, charts_html(reported))
        for file in (picture, page, data_page, charts, *(answer.path for answer in responses)):
            tracker.log_file(file)
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
        # Their time is tracked with the others, no score among scores.
        base=scored["base"].model_copy(update={"seconds": None}),
        tuned=scored["tuned"].model_copy(update={"seconds": None}),
        mlflow_run_id=run.run_id,
        prefect_flow_run_id=run.flow_run_id,
        fingerprint=workload_fingerprint(options, data.data_sha256),
        checkpoint=training.checkpoint,
    )


def times(
    training: TrainingResult, responses: Sequence[Responses], scores: Sequence[Scores]
) -> dict[str, float]:
    """Where the run's time went, by the tracked names; the summary holds the rest."""
    return {
        "time/steps": training.step_seconds,
        "time/evaluation": training.eval_seconds,
        "time/checkpoints": training.checkpoint_seconds,
        "time/generation": sum(answered.seconds for answered in responses),
        "time/scoring": sum(scored.seconds or 0.0 for scored in scores),
        "best_val_loss": training.best_val_loss,
    }


def read_answers(folder: Path, count: int) -> list[dict[str, Any]]:
    """`count` answers of both models side by side, of as many kinds of task as there are."""
    pairs = read_pairs([folder])
    first_of_kind = {
        pair.get("kind") or index: index for index, pair in reversed(list(enumerate(pairs)))
    }
    chosen = sorted(first_of_kind.values())[:count]
    chosen += [index for index in range(len(pairs)) if index not in chosen][: count - len(chosen)]
    return [pairs[index] for index in chosen]


def read_summary_file(folder: Path) -> RunSummary:
    """The summary that `write_report` left in a run's folder."""
    return RunSummary.model_validate(read_json(folder / SUMMARY_FILE))
