"""The page of a comparison: the runs side by side, and what their difference can be put down to."""

from __future__ import annotations

from collections.abc import Sequence

from twolevers.compare import Difference, TimedRun
from twolevers.options import option_fields
from twolevers.report.curves import NUM_HUES, Drawing, Line, draw
from twolevers.report.pages import render
from twolevers.report.reported import Reported
from twolevers.report.run_page import TIMES, score_lines
from twolevers.report.table import runs_text
from twolevers.report.texts import memory_text, option_text, seconds_text, shown

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
    return render(
        "comparison.html",
        timed=list(zip(timed, runs, strict=True)),
        names=names,
        slowest=max(one.cell.seconds for one in timed),
        runs_text=runs_text,
        pairs=pairs,
        figures=_figures(runs),
        drawings=_drawings(names, runs),
        scores=_scores(runs),
        options=_differing_options(runs),
        versions=_differing_versions(runs),
    )


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
    return rows


def _drawings(names: Sequence[str], runs: Sequence[Reported]) -> list[Drawing]:
    def lines(curve: str) -> list[Line]:
        return [
            Line(name, run.curve(curve), hue=index % NUM_HUES + 1)
            for index, (name, run) in enumerate(zip(names, runs, strict=True))
        ]

    drawn = (
        draw("Validation loss", "nats per token", lines("val/loss")),
        draw("Speed", "tokens/s", lines("train/tokens_per_second")),
    )
    return [drawing for drawing in drawn if drawing]


def _scores(runs: Sequence[Reported]) -> dict[str, list[str]]:
    """Label, then the tuned model's score of each run."""
    by_run = [{label: tuned for label, _, tuned in score_lines(run.summary)} for run in runs]
    labels = dict.fromkeys(label for scores in by_run for label in scores)
    return {label: [shown(scores.get(label)) for scores in by_run] for label in labels}


def _differing_options(runs: Sequence[Reported]) -> dict[str, list[str]]:
    values = {
        name.replace("_", " "): [option_text(run.params.get(name)) for run in runs]
        for _, name, _ in option_fields()
    }
    return {name: of_runs for name, of_runs in values.items() if len(set(of_runs)) > 1}


def _differing_versions(runs: Sequence[Reported]) -> dict[str, list[str]]:
    """Libraries, and the code's commit."""
    tags = sorted({tag for run in runs for tag in run.tags if tag.startswith(VERSIONS)})
    values = {tag.removeprefix(VERSIONS): [run.tags.get(tag, "–") for run in runs] for tag in tags}
    values["commit"] = [run.tags.get("git.commit", "–")[:10] for run in runs]
    return {name: of_runs for name, of_runs in values.items() if len(set(of_runs)) > 1}
