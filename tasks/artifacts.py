"""What a run shows in Prefect's UI besides its log: how far it is, and what came out.

No artifact is worth a run: where Prefect does not take one, the log says so and the run goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from uuid import UUID

from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.logging import get_run_logger

from twolevers.classification.records import ClassificationRun, ClassificationSummary
from twolevers.progress import Pace, Progress
from twolevers.records import FineTuneRun, RunSummary
from twolevers.report.classification import describe as describe_classification
from twolevers.report.classification import score_rows as classification_rows
from twolevers.report.table import about, table_markdown, table_rows
from twolevers.report.texts import (
    describe,
    how_to_open,
    kind_rows,
    picture_text,
    progress_text,
    score_label,
    score_rows,
)
from twolevers.report.write import PICTURE_FILE
from twolevers.run_times import RunTimes
from twolevers.time_limit import within
from twolevers.tracking.evaluations import Evaluation, figures
from twolevers.tracking.pages import run_page
from twolevers.tracking.rerun import Comparison

SHOW_SECONDS = 60.0
"""How long what a run came to may wait for Prefect's server: as long as a restart takes."""


class LiveProgress:
    """Progress that is also an artifact, kept up to date by a thread: the stage never waits."""

    SECONDS = 2.0
    LAST_SECONDS = 5.0

    def __init__(self, progress: Progress, key: str) -> None:
        self.progress, self.key, self.logger = progress, key, get_run_logger()
        self.unit, self.noted, self.figures = "", "", dict[str, float]()
        self.pace = Pace(None)
        self.artifact: UUID | None = None
        self.posted, self.warned = "", False
        self.over = threading.Event()
        # In the stage's own context, by which Prefect knows the run.
        self.thread = threading.Thread(target=copy_context().run, args=[self._post], daemon=True)

    def start(self, stage: str, total: int | None, unit: str) -> None:
        self.progress.start(stage, total, unit)
        self.pace, self.unit = Pace(total), unit
        if not self.thread.is_alive() and not self.over.is_set():
            self.thread.start()

    def advance(self, done: int, **figures: float) -> None:
        self.progress.advance(done, **figures)
        self.figures = figures
        self.pace.advance(done)

    def note(self, text: str) -> None:
        self.progress.note(text)
        self.noted = text

    def finish(self) -> None:
        self.progress.finish()

    def close(self) -> None:
        """Post how the stage ended; a server that does not answer is not waited for long."""
        self.over.set()
        if self.thread.is_alive():
            self.thread.join(self.LAST_SECONDS)

    def _post(self) -> None:
        while True:
            last = self.over.is_set()
            try:
                self._post_once()
            except Exception as error:
                if not self.warned:
                    self.logger.warning(
                        "How far the stage is cannot be shown in Prefect: %r", error
                    )
                self.warned = True
            if last:
                return
            self.over.wait(self.SECONDS)

    def _post_once(self) -> None:
        pace = self.pace
        left = None if self.over.is_set() else pace.seconds_left
        text = progress_text(pace.done, pace.total, self.unit, self.figures, seconds_left=left)
        text += f"\n\n{self.noted}" if self.noted else ""
        if self.artifact is None:
            self.artifact = create_progress_artifact(pace.percent, self.key, text)
        elif text != self.posted:
            update_progress_artifact(self.artifact, pace.percent, text)
        self.posted = text


@contextmanager
def live_progress(progress: Progress, key: str) -> Iterator[Progress]:
    """`progress`, shown as an artifact too while the block lasts."""
    live = LiveProgress(progress, key)
    try:
        yield live
    finally:
        live.close()


def show_results(run: FineTuneRun, summary: RunSummary, mlflow: str | None) -> None:
    """Summary, scores, loss curve and the way to the tracked run.

    Args:
        mlflow: address of a running MLflow server, if there is one.
    """

    def show() -> None:
        page = run_page(run.run_id, mlflow)
        text = describe(summary, {"run in MLflow": page})
        text += "" if page else f"\n\n{how_to_open(run.run_id)}"
        create_markdown_artifact(text, "fine-tune-summary", "what was trained, and what came out")
        create_table_artifact(
            score_rows(summary), "fine-tune-scores", "base and tuned, on the test split"
        )
        if kinds := kind_rows(summary):
            create_table_artifact(
                kinds, "fine-tune-scores-by-kind", "base and tuned, by kind of task"
            )
        picture = picture_text((run.folder / PICTURE_FILE).read_bytes(), "loss curve")
        create_markdown_artifact(picture, "fine-tune-loss-curve", "loss of both splits by step")
        if page:
            create_link_artifact(
                page, "run in MLflow", "fine-tune-mlflow-run", "parameters, metrics, files"
            )

    best_effort("The results cannot be shown in Prefect", show)


def show_evaluation(evaluation: Evaluation) -> None:
    """The scores of a model that was evaluated."""

    def show() -> None:
        scores, judge = evaluation.scores, evaluation.judge
        rows = figures(scores, evaluation.split)
        if judge and (mean := judge.sets[scores.role].mean):
            rows["judge, 0 to 100"] = round(mean.mean, 2)
        create_table_artifact(
            [{"score": score_label(name), "value": value} for name, value in rows.items()],
            "evaluation-scores",
            f"{evaluation.what} on {evaluation.dataset} ({evaluation.split})",
        )

    best_effort("The scores cannot be shown in Prefect", show)


def show_classification(
    run: ClassificationRun, summary: ClassificationSummary, mlflow: str | None
) -> None:
    """Summary, scores, confusion matrix and the way to the tracked run."""

    def show() -> None:
        page = run_page(run.run_id, mlflow)
        text = describe_classification(summary)
        text += "" if page else f"\n\n{how_to_open(run.run_id)}"
        create_markdown_artifact(text, "classify-summary", "what was trained, and what came out")
        create_table_artifact(classification_rows(summary), "classify-scores", "by split")
        picture = picture_text((run.folder / "confusion.png").read_bytes(), "confusion matrix")
        create_markdown_artifact(picture, "classify-confusion", "right by answered, test split")
        if page:
            create_link_artifact(
                page, "run in MLflow", "classify-mlflow-run", "parameters, metrics, files"
            )

    best_effort("The results cannot be shown in Prefect", show)


def show_stopped(reason: str, flow: str) -> None:
    """How to go on with a stopped run, by the command or by the deployment of `flow`. The state
    says so too, until the worker words it anew."""
    lines = [*reason.splitlines(), f"Or in the form of `{flow}`: that run as `resume_from`."]
    best_effort(
        "How to go on cannot be shown in Prefect",
        lambda: create_markdown_artifact("\n\n".join(lines), f"{flow}-stopped"),
    )


def show_comparison(comparison: Comparison) -> None:
    """A rerun beside the run that it repeats."""
    best_effort(
        "The comparison cannot be shown in Prefect",
        lambda: create_markdown_artifact(comparison.markdown, "rerun-comparison"),
    )


def show_run_times(table: RunTimes, not_measured: Sequence[str]) -> None:
    """The run-time table."""

    def show() -> None:
        create_markdown_artifact(table_markdown(table, not_measured), "run-time-table")
        create_table_artifact(table_rows(table), "run-time-table-cells", about(table))

    best_effort("The table cannot be shown in Prefect", show)


def best_effort(what: str, call: Callable[[], object]) -> None:
    """What goes wrong is a line of the run's log, which begins with `what`. A server that does not
    answer is not waited for long: all else of the run is done."""
    try:
        # In the run's own context, by which Prefect knows the run.
        within(SHOW_SECONDS, partial(copy_context().run, call))
    except Exception as error:
        get_run_logger().warning("%s: %r", what, error)
