"""A run's page: what it was, how long it took, what it learnt, how to have it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twolevers.commands import LEVERS, fine_tune_command, is_default
from twolevers.options import FineTuneOptions, option_fields
from twolevers.records import RunSummary
from twolevers.report.curves import Drawing, Line, draw
from twolevers.report.pages import render
from twolevers.report.reported import Reported, best_and_worst, row_numbers
from twolevers.report.texts import SCORE_LABELS, memory_text, option_text, seconds_text, shown
from twolevers.tracking import names

NUM_ANSWERS = 5
TIMES = {
    "time/steps": "train (optimizer steps)",
    "time/evaluation": "evaluate (during training)",
    "time/checkpoints": "checkpoint (and its validation loss)",
    "time/generation": "generate (both models' answers)",
    "time/scoring": "evaluate (losses and scores of both models)",
}
UNEQUAL = {
    "duplicates": "entries repeat an earlier one whole",
    "test_entries_in_training": "test entries stand whole in the training split",
    "test_prompts_in_training": "test prompts stand in the training split with another output",
    "val_entries_in_training": "validation entries stand whole in the training split",
}
Pairs = dict[str, str]


@dataclass(frozen=True)
class Option:
    """One line of the configuration."""

    name: str
    value: str
    unit: str
    changed: bool
    """Not what it is where nothing is said about it."""


def run_html(run: Reported) -> str:
    """The page of one run, finished or not."""
    best, worst = best_and_worst(run.answers, NUM_ANSWERS)
    return render(
        "run.html",
        run=run,
        summary=dict.fromkeys(RunSummary.model_fields) | dict(run.summary),
        error=run.tags.get(names.ERROR),
        figures=_figures(run.summary),
        times=list(_times(run.metrics)),
        drawings=drawings(run),
        scores=list(score_lines(run.summary)),
        kinds=list(_kind_lines(run.summary)),
        answers={"Best answers": best, "Worst answers": worst},
        ledger=run.ledger,
        dropped=list(data_lines(run.ledger)),
        options=options_by_group(run.params),
        made_with=_made_with(run),
        commands=_commands(run),
    )


def _figures(summary: Mapping[str, Any]) -> Pairs:
    return {
        "two epochs": seconds_text(summary.get("two_epoch_seconds")),
        "training": seconds_text(summary.get("train_seconds")),
        "speed": shown(summary.get("tokens_per_second"), "{:,.0f} tokens/s"),
        "peak memory": memory_text(summary.get("peak_memory_bytes")),
        "training loss": _change(summary, "train_loss"),
        "validation loss": _change(summary, "val_loss"),
    } | {
        f"{SCORE_LABELS[name]}, base → tuned": " → ".join(
            shown((summary.get(role) or {}).get(name)) for role in names.ROLES
        )
        for name in ("exact_match", "token_f1")
    }


def _change(summary: Mapping[str, Any], loss: str) -> str:
    return " → ".join(shown(summary.get(f"{loss}_{when}")) for when in ("before", "after"))


def _times(metrics: Mapping[str, float]) -> Iterator[tuple[str, float | None, float]]:
    """What took time, its seconds, and its share of all that was measured, in percent."""
    total = sum(metrics.get(name, 0.0) for name in TIMES) or 1.0
    for name, label in TIMES.items():
        seconds = metrics.get(name)
        yield label, seconds, 100 * (seconds or 0.0) / total


def drawings(run: Reported) -> list[Drawing]:
    """Loss of both splits over steps and tokens, and the speed."""
    losses = [
        Line("training, each step", run.curve("train/loss"), faded=True),
        Line(_at_the_end("training", run, "train/eval_loss"), run.curve("train/eval_loss")),
        Line(_at_the_end("validation", run, "val/loss"), run.curve("val/loss"), hue=2),
    ]
    speed = [Line("each step", run.curve("train/tokens_per_second"))]
    drawn = (
        draw("Loss", "nats per token", losses, tokens_per_step=run.tokens_per_step),
        draw("Speed", "tokens/s", speed, tokens_per_step=run.tokens_per_step),
    )
    return [drawing for drawing in drawn if drawing]


def _at_the_end(split: str, run: Reported, curve: str) -> str:
    points = run.curve(curve)
    return f"{split}, {points[-1][1]:.3f} at the end" if points else split


def score_lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, float | None, float | None]]:
    """Each score of the whole test split: label, base, tuned; nothing where none is known."""
    base, tuned = (summary.get(role) or {} for role in names.ROLES)
    others = {name: name.replace("_", " ") for name in tuned.get("other") or ()}
    for name, label in (SCORE_LABELS | others).items():
        values = [of.get(name, (of.get("other") or {}).get(name)) for of in (base, tuned)]
        if values != [None, None]:
            yield label, values[0], values[1]


def _kind_lines(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Exact match and token F1 by kind of task, the kinds that gained least first."""
    base, tuned = ((summary.get(role) or {}).get("by_kind") or {} for role in names.ROLES)
    lines = [
        {
            "kind": kind.replace("_", " "),
            "count": round(of["count"]),
            "exact": [of_role.get(kind, {}).get("exact_match") for of_role in (base, tuned)],
            "f1": [of_role.get(kind, {}).get("token_f1") for of_role in (base, tuned)],
        }
        for kind, of in tuned.items()
    ]
    return iter(sorted(lines, key=lambda line: line["f1"][1]))


def data_lines(ledger: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each reason why rows are missing, cut, or stand in two places."""
    for group in ledger.get("dropped_rows", ()):
        rows = group["rows"]
        yield (
            f"Dropped from the {group['split']} split, {len(rows):,}: {group['reason']} "
            f"({row_numbers(rows)})."
        )
    for split, rows in ledger.get("cut_rows", {}).items():
        if rows:
            yield f"Cut to max_length in the {split} split, {len(rows):,} ({row_numbers(rows)})."
    for name, what in UNEQUAL.items():
        pairs = ledger.get(name, {"count": 0})
        if pairs["count"]:
            places = ", ".join(f"{row} as {first}" for row, first in pairs["first"])
            yield f"{pairs['count']:,} {what} (row {places}{_more(pairs)})."


def _more(pairs: Mapping[str, Any]) -> str:
    left = pairs["count"] - len(pairs["first"])
    return f" and {left:,} more" if left else ""


def options_by_group(params: Mapping[str, str]) -> dict[str, list[Option]]:
    """The options that are known, under the titles of their groups."""
    groups: dict[str, list[Option]] = {}
    for group, name, field in option_fields():
        if name not in params:
            continue
        extra = field.json_schema_extra
        unit = str(extra.get("unit", "")) if isinstance(extra, dict) else ""
        groups.setdefault(_title(group), []).append(
            Option(
                name.replace("_", " "),
                option_text(params[name]),
                unit if unit != name else "",
                changed=name not in LEVERS and not is_default(name, params),
            )
        )
    return groups


def _title(group: str | None) -> str:
    """`How entries become tokens`, as the group describes itself."""
    if group is None:
        return "The two levers, and the data"
    return str(FineTuneOptions.model_fields[group].annotation.__doc__).rstrip(".")


def _made_with(run: Reported) -> Pairs:
    """Hashes, versions and machine, as far as they are known."""
    inputs, tags = run.inputs, run.tags
    dirty = tags.get("git.dirty") == "true"
    threads = run.summary.get("threads") or tags.get(names.THREADS)
    found = {
        "run": run.run_id,
        "flow run": run.summary.get("prefect_flow_run_id"),
        "workload": run.summary.get("fingerprint"),
        "hardware": run.summary.get("hardware") or tags.get(names.HARDWARE),
        "threads": str(threads) if threads else None,
        "platform": tags.get("platform"),
        "commit": tags.get("git.commit", "") + " with changes to tracked files" * dirty,
        "data, SHA-256": inputs.get("dataset", {}).get("sha256"),
        "base weights": inputs.get("weights", {}).get("source"),
        "base weights, SHA-256": inputs.get("weights", {}).get("sha256"),
        "checkpoint": run.summary.get("checkpoint"),
        "versions": ", ".join(
            f"{name.removeprefix('version.')} {version}"
            for name, version in sorted(tags.items())
            if name.startswith("version.")
        ),
    }
    return {name: value for name, value in found.items() if value}


def _commands(run: Reported) -> Pairs:
    short = run.run_id[:8]
    commands = {}
    if run.summary.get("status") in ("KILLED", "FAILED"):
        commands["Go on where it stopped:"] = f"twolevers fine-tune --resume {short}"
    commands["Repeat this run exactly and compare the losses:"] = f"twolevers rerun {short}"
    if run.params.get("model"):
        commands["Start one like it, here or on another machine; turn a lever by changing it:"] = (
            fine_tune_command(run.params)
        )
    commands["See it in MLflow:"] = "twolevers ui mlflow"
    return commands
