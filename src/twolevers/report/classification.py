"""What a finished classification leaves to look at: summary, tables, pictures and page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twolevers.classification.options import ClassifyOptions
from twolevers.classification.plan import TASK, classify_fingerprint
from twolevers.classification.records import (
    ClassificationRun,
    ClassificationSummary,
    ClassifierResult,
    ClassifierScores,
    LabelledData,
    SplitScores,
)
from twolevers.errors import InputError, Problem
from twolevers.files import read_json
from twolevers.options import flag, option_fields
from twolevers.published import CHAPTER_6_ACCURACIES, CHAPTER_6_SOURCE, PublishedAccuracy
from twolevers.report.classification_pictures import (
    MOST_NAMES,
    confusion_picture,
    reliability_picture,
)
from twolevers.report.pages import render, write_page
from twolevers.report.pictures import loss_curve
from twolevers.report.texts import memory_text, seconds_text, shown
from twolevers.tracking import names
from twolevers.tracking.protocol import Tracker

if TYPE_CHECKING:
    import pandas as pd

SCORE_LABELS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "calibration_error": "calibration error",
    "loss": "loss (nats a text)",
    "majority_accuracy": "accuracy of the most frequent label",
}
REPORT_FILE, SCORES_FILE = "report.html", "classification.json"
_SHOWN_LABELS = 40
PICTURES = {
    "loss-curve.png": "Loss by step",
    "confusion.png": "Confusion matrix",
    "reliability.png": "Reliability",
}


def write_classification(
    run: ClassificationRun,
    data: LabelledData,
    training: ClassifierResult,
    scores: ClassifierScores,
    tracker: Tracker,
) -> ClassificationSummary:
    """Summary, score table, pictures and page, in the run's folder and tracked."""
    summary = summarise(run, data, training, scores)
    step = training.steps
    for one in scores.splits:
        figures = one.model_dump(exclude={"split", "num"})
        tracker.log_metrics({f"final/{one.split}_{k}": v for k, v in figures.items()}, step=step)
    tracker.log_summary(summary.model_dump(mode="json"), step=step)
    tracker.log_table(scores_table(scores.splits), "scores.json")
    tables = read_json(scores.path)
    pictures = _pictures(run, data, training, tables["splits"]["test"], tracker)
    tracker.set_description(describe(summary))
    page = write_page(run.folder / REPORT_FILE, page_of(run.folder, summary, run.options))
    for file in (scores.path, page, *pictures):
        tracker.log_file(file)
    return summary


def page_of(folder: Path, summary: ClassificationSummary, options: ClassifyOptions) -> str:
    """A run's page, from its figures and the tables and pictures in its folder."""
    test = read_json(folder / SCORES_FILE)["splits"]["test"]
    return render(
        "classification.html",
        summary=summary,
        figures=figures_of(summary),
        scores=score_rows(summary),
        # A field for each two of a thousand labels would be a page that no browser opens.
        confusion=test["confusion"] if len(summary.labels) <= MOST_NAMES else [],
        scores_file=SCORES_FILE,
        reliability=test["reliability"],
        pictures={
            title: b64encode((folder / name).read_bytes()).decode()
            for name, title in PICTURES.items()
        },
        published=published_beside(summary.model),
        source=CHAPTER_6_SOURCE,
        options=options_of(options),
        command=command(options),
    )


def page_again(folder: Path) -> str:
    """The page of a run that has ended, from what lies in its folder.

    Raises:
        InputError: it did not come to its end, or its folder is not on this machine.
    """
    try:
        stored = read_json(folder / names.SUMMARY_FILE)
        known = {name: stored[name] for name in ClassificationSummary.model_fields}
        options = ClassifyOptions.model_validate(read_json(folder / names.CLASSIFY_OPTIONS_FILE))
        return page_of(folder, ClassificationSummary.model_validate(known), options)
    except (OSError, ValueError, KeyError) as error:
        what = f"has nothing to show in {folder} ({error})"
        way_out = "choose a classification that finished, on this machine"
        raise InputError(Problem("run", folder.name, what, way_out)) from error


def summarise(
    run: ClassificationRun,
    data: LabelledData,
    training: ClassifierResult,
    scores: ClassifierScores,
) -> ClassificationSummary:
    """The run in one record."""
    options = run.options
    return ClassificationSummary(
        name=f"{options.model} on {run.hardware}",
        task=TASK,
        status="FINISHED",
        model=options.model,
        device=options.device,
        hardware=run.hardware,
        threads=run.threads,
        precision=options.precision,
        dataset=data.dataset,
        labels=data.labels,
        trained=options.training.train,
        num_trained=training.num_trained,
        num_parameters=training.num_parameters,
        epochs=training.epochs,
        train_seconds=training.train_seconds,
        tokens_per_second=training.tokens_per_second,
        peak_memory_bytes=training.peak_memory_bytes,
        train_loss_before=training.train_loss_before,
        train_loss_after=training.train_loss_after,
        val_loss_before=training.val_loss_before,
        val_loss_after=training.val_loss_after,
        scores={one.split: one for one in scores.splits},
        data=data,
        mlflow_run_id=run.run_id,
        prefect_flow_run_id=run.flow_run_id,
        fingerprint=classify_fingerprint(options, data),
        checkpoint=training.checkpoint,
    )


def _pictures(
    run: ClassificationRun,
    data: LabelledData,
    training: ClassifierResult,
    test: Mapping[str, Any],
    tracker: Tracker,
) -> list[Path]:
    title = f"{run.options.model} on {run.hardware}, {data.dataset}"
    curves = tracker.read_metrics(("train/eval_loss", "val/loss"))
    paths = [run.folder / name for name in PICTURES]
    loss_curve(
        paths[0],
        train=curves["train/eval_loss"],
        val=curves["val/loss"],
        tokens_per_step=training.tokens / max(training.steps, 1),
        title=title,
        unit="nats per text",
    )
    confusion_picture(paths[1], test["confusion"], data.labels, title=f"test split · {title}")
    reliability_picture(paths[2], test["reliability"], title=f"test split · {title}")
    return paths


def scores_table(splits: Sequence[SplitScores]) -> pd.DataFrame:
    """One row a score, one column a split."""
    import pandas as pd

    columns = {"score": list(SCORE_LABELS.values())}
    for one in splits:
        columns[one.split] = [getattr(one, name) for name in SCORE_LABELS]
    return pd.DataFrame(columns)


def score_rows(summary: ClassificationSummary) -> list[dict[str, str]]:
    """`score` and the three splits, as text."""
    splits = {str(name): one for name, one in summary.scores.items()}
    rows = [{"score": "texts", **{name: str(one.num) for name, one in splits.items()}}]
    for key, label in SCORE_LABELS.items():
        shown_by_split = {name: shown(getattr(one, key)) for name, one in splits.items()}
        rows.append({"score": label, **shown_by_split})
    return rows


def figures_of(summary: ClassificationSummary) -> dict[str, str]:
    """What was trained, on what, in what time."""
    data = summary.data
    threads = f", {summary.threads} threads" if summary.device == "cpu" else ""
    texts = f"{data.num_train} to train, {data.num_val} to validate, {data.num_test} to test"
    left_out = f"; {data.num_dropped:,} of {data.num_rows:,} left out, labels are balanced"
    also = f"{data.num_cut:,} cut to the longest allowed"
    also += f"; {data.num_repeated:,} test texts stand in the training split too"
    if data.num_rare:
        also += f"; labels too rare to stand in every split: {data.num_rare:,}"
    return {
        "device": f"{summary.device}: {summary.hardware}{threads}, {summary.precision}",
        "data set": f"{summary.dataset}: {data.text_column} → {data.label_column}",
        "labels": _labels(summary.labels),
        "texts": texts + (left_out if data.num_dropped else ""),
        "of them": also,
        "trained": f"{summary.trained}: {summary.num_trained:,} parameters "
        f"(the model has {summary.num_parameters:,}), {summary.epochs} epochs",
        "training": f"{seconds_text(summary.train_seconds)}, "
        f"{summary.tokens_per_second:,.0f} tokens/s",
        "peak memory": memory_text(summary.peak_memory_bytes),
        "training loss": f"{summary.train_loss_before:.3f} → {summary.train_loss_after:.3f}",
        "validation loss": f"{summary.val_loss_before:.3f} → {summary.val_loss_after:.3f}",
    }


def _labels(labels: Sequence[str]) -> str:
    more = len(labels) - _SHOWN_LABELS
    return ", ".join(labels[:_SHOWN_LABELS]) + (f" and {more:,} more" if more > 0 else "")


def published_beside(model: str) -> list[PublishedAccuracy]:
    """What chapter 6 published of this model; of another one, all of it."""
    own = [one for one in CHAPTER_6_ACCURACIES if one.model == model]
    return own or list(CHAPTER_6_ACCURACIES)


def describe(summary: ClassificationSummary) -> str:
    """The run's story in Markdown."""
    lines = [f"**{summary.model}** classifies `{summary.dataset}`, {summary.trained} trained.", ""]
    lines += [f"- {name}: {text}" for name, text in figures_of(summary).items()]
    lines += ["", "| score | train | val | test |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {' | '.join(row.values())} |" for row in score_rows(summary)]
    return "\n".join(lines)


def options_of(options: ClassifyOptions) -> dict[str, str]:
    """Every option by its name, as text."""
    return {
        name: str(getattr(getattr(options, group) if group else options, name))
        for group, name, _ in option_fields(ClassifyOptions)
    }


def command(options: ClassifyOptions) -> str:
    """The command that runs the same again: the levers, and what is not as it is by default."""
    words = ["twolevers classify"]
    default = options_of(ClassifyOptions())
    for name, value in options_of(options).items():
        if value == default[name]:
            continue
        if value in ("True", "False"):
            words.append(flag(name) if value == "True" else flag(f"no_{name}"))
        else:
            words.append(f'{flag(name)} "{value}"')
    return " ".join(words)
