"""The page of a comparison: the runs side by side, and what their difference can be put down to."""

from __future__ import annotations

from collections.abc import Sequence

from twolevers.classification.options import ClassifyOptions
from twolevers.commands import classify_command
from twolevers.compare import Difference, TimedRun
from twolevers.options import option_fields
from twolevers.report.classification import SCORE_LABELS
from twolevers.report.curves import NUM_HUES, Drawing, Line, draw
from twolevers.report.pages import render
from twolevers.report.reported import Reported
from twolevers.report.run_page import TIMES, score_lines
from twolevers.report.table import runs_text
from twolevers.report.texts import memory_text, option_text, seconds_text, shown
from twolevers.tracking import names as tracked

VERSIONS = "version."


def comparison_html(
    timed: Sequence[TimedRun], pairs: Sequence[Difference], runs: Sequence[Reported]
) -> str:
    """The page.

    Args:
        timed: the runs with their cells, of `compare.find_timed`.
        pairs: of `compare.differences`.
        runs: the same runs as `timed`, in the same order.
    """
    names = [f"{run.run_id[:8]} {one.model}" for run, one in zip(runs, timed, strict=True)]
    classify = [_is_classification(run) for run in runs]
    return render(
        "comparison.html",
        timed=list(zip(timed, runs, strict=True)),
        names=names,
        of_what="training" if any(classify) else "two epochs",
        slowest=max(one.cell.seconds for one in timed),
        runs_text=runs_text,
        pairs=pairs,
        figures=_figures(runs),
        drawings=_drawings(names, runs),
        scored="test split" if any(classify) else "tuned models",
        scores=_scores(runs),
        options=_differing_options(runs),
        versions=_differing_versions(runs),
        again=[_again(run) for run in runs],
    )


def _is_classification(run: Reported) -> bool:
    return run.tags.get(tracked.KIND) == tracked.CLASSIFY


def _again(run: Reported) -> str:
    """The command that runs the same again."""
    if _is_classification(run):
        return classify_command(run.params)
    return f"twolevers rerun {run.run_id[:8]}"


def _figures(runs: Sequence[Reported]) -> dict[str, list[str]]:
    """Label, then what each run took."""
    rows = {
        label: [seconds_text(run.metrics.get(name)) for run in runs]
        for name, label in TIMES.items()
    }
    rows["speed"] = [
        shown(run.metrics.get("tokens_per_second"), "{:,.0f} tokens/s") for run in runs
    ]
    rows["peak memory"] = [memory_text(run.metrics.get("peak_memory_bytes")) for run in runs]
    missing = [shown(None)] * len(runs)
    return {label: of_runs for label, of_runs in rows.items() if of_runs != missing}


def _drawings(names: Sequence[str], runs: Sequence[Reported]) -> list[Drawing]:
    def lines(curve: str) -> list[Line]:
        return [
            Line(name, run.curve(curve), hue=index % NUM_HUES + 1)
            for index, (name, run) in enumerate(zip(names, runs, strict=True))
        ]

    units = {"nats a text" if _is_classification(run) else "nats per token" for run in runs}
    drawn = (
        draw("Validation loss", " or ".join(sorted(units)), lines("val/loss")),
        draw("Speed", "tokens/s", lines("train/tokens_per_second")),
    )
    return [drawing for drawing in drawn if drawing]


def _scores(runs: Sequence[Reported]) -> dict[str, list[str]]:
    """Label, then the score of each run: of its tuned model, or of its classifier."""
    by_run = [
        _classifier_scores(run)
        if _is_classification(run)
        else {label: tuned for label, _, tuned in score_lines(run.summary)}
        for run in runs
    ]
    labels = dict.fromkeys(label for scores in by_run for label in scores)
    return {label: [shown(scores.get(label)) for scores in by_run] for label in labels}


def _classifier_scores(run: Reported) -> dict[str, float | None]:
    """From what was tracked, which is known of a run of another machine too."""
    scores = {label: run.metrics.get(f"final/test_{name}") for name, label in SCORE_LABELS.items()}
    return {label: score for label, score in scores.items() if score is not None}


def _differing_options(runs: Sequence[Reported]) -> dict[str, list[str]]:
    options = (*option_fields(), *option_fields(ClassifyOptions))
    values = {
        name.replace("_", " "): [option_text(run.params.get(name)) for run in runs]
        for _, name, _ in options
    }
    return {name: of_runs for name, of_runs in values.items() if len(set(of_runs)) > 1}


def _differing_versions(runs: Sequence[Reported]) -> dict[str, list[str]]:
    """Libraries, and the code's commit."""
    tags = sorted({tag for run in runs for tag in run.tags if tag.startswith(VERSIONS)})
    values = {tag.removeprefix(VERSIONS): [run.tags.get(tag, "–") for run in runs] for tag in tags}
    values["commit"] = [run.tags.get("git.commit", "–")[:10] for run in runs]
    return {name: of_runs for name, of_runs in values.items() if len(set(of_runs)) > 1}
