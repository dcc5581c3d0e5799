"""A run's figures as text and rows, for whatever page shows them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from twolevers.records import RunSummary

SCORE_LABELS = {
    "val_loss": "validation loss",
    "exact_match": "exact match",
    "token_f1": "token F1",
    "rouge_l": "ROUGE-L",
    "chrf": "chrF",
}
Row = dict[str, str | float]


def score_label(name: str) -> str:
    """What a score, or the loss of a split, is called where it is shown: `chrF`, `test loss`."""
    return "loss" if name == "all_loss" else SCORE_LABELS.get(name, name.replace("_", " "))


def describe(summary: RunSummary, links: Mapping[str, str | None]) -> str:
    """The run's story in Markdown, for the page that lists runs.

    Args:
        links: addresses of other pages about it by what they are; None is left out.
    """
    lines = [
        f"**{summary.model}** on **{summary.hardware}** ({summary.device}, {summary.precision}), "
        f"{summary.epochs} epoch{'s' * (summary.epochs != 1)} of `{summary.dataset}`.",
        "",
        *(f"- {name}: {text}" for name, text in _figures(summary).items()),
    ]
    if pairs := _scores(summary):
        lines += ["", "| on the test split | base | tuned |", "| --- | --- | --- |"]
        lines += [f"| {label} | {base:.3f} | {tuned:.3f} |" for label, base, tuned in pairs]
    known = {what: address for what, address in links.items() if address}
    if known:
        lines += ["", " · ".join(f"[{what}]({address})" for what, address in known.items())]
    return "\n".join(lines)


def how_to_open(run_id: str) -> str:
    """What stands in a link's place where no server runs that could show the tracked run."""
    return f"In MLflow it is the run `{run_id}`; `twolevers ui mlflow` opens MLflow."


def _figures(summary: RunSummary) -> dict[str, str]:
    figures = {"training": seconds_text(summary.train_seconds)}
    if summary.two_epoch_seconds is not None:
        figures = {"two epochs": seconds_text(summary.two_epoch_seconds), **figures}
    if summary.tokens_per_second:
        figures["training"] += f", {summary.tokens_per_second:,.0f} tokens/s"
    if summary.peak_memory_bytes:
        figures["peak memory"] = f"{summary.peak_memory_bytes / 2**20:,.0f} MiB"
    for name, before, after in (
        ("training loss", summary.train_loss_before, summary.train_loss_after),
        ("validation loss", summary.val_loss_before, summary.val_loss_after),
    ):
        if before is not None and after is not None:
            figures[name] = f"{before:.3f} → {after:.3f}"
    return figures


def score_rows(summary: RunSummary) -> list[Row]:
    """`score`, `base`, `tuned`, `change`: the base model against the tuned one, test split."""
    return [{"score": label, **_beside(base, tuned)} for label, base, tuned in _scores(summary)]


def _scores(summary: RunSummary) -> list[tuple[str, float, float]]:
    base, tuned = summary.base, summary.tuned
    if base is None or tuned is None:
        return []
    return [
        (label, getattr(base, name), getattr(tuned, name)) for name, label in SCORE_LABELS.items()
    ]


def kind_rows(summary: RunSummary) -> list[Row]:
    """One row a kind of task, where the data names it: its entries and exact matches."""
    if summary.base is None or summary.tuned is None:
        return []
    return [
        {
            "kind of task": kind,
            "entries": round(of_tuned["count"]),
            **{
                f"{SCORE_LABELS[score]}, {when}": value
                for score in ("exact_match", "token_f1")
                for when, value in _beside(
                    summary.base.by_kind[kind][score], of_tuned[score]
                ).items()
                if when != "change"
            },
        }
        for kind, of_tuned in summary.tuned.by_kind.items()
    ]


def _beside(base: float, tuned: float) -> Row:
    return {"base": round(base, 4), "tuned": round(tuned, 4), "change": round(tuned - base, 4)}


def progress_text(
    done: int,
    total: int | None,
    unit: str,
    figures: Mapping[str, float],
    *,
    seconds_left: float | None = None,
) -> str:
    """`40 of 232 steps, loss 0.812, 3,912 tokens/s, 48.0 s left`."""
    if unit == "bytes":
        parts = [f"{done / 1e6:.1f}" + (f" of {total / 1e6:.1f}" if total else "") + " MB"]
    else:
        parts = [f"{done:,}" + (f" of {total:,}" if total else "") + f" {unit}"]
    if "loss" in figures:
        parts.append(f"loss {figures['loss']:.3f}")
    if "tokens_per_second" in figures:
        parts.append(f"{figures['tokens_per_second']:,.0f} tokens/s")
    if seconds_left is not None:
        parts.append(f"{seconds_text(seconds_left)} left")
    return ", ".join(parts)


def seconds_text(seconds: float | None) -> str:
    """`28.4 s`, `1 min 05 s` for people, `–` where nobody measured."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def shown(value: float | None, form: str = "{:.3f}") -> str:
    """A figure for people, `–` where nobody measured."""
    return "–" if value is None else form.format(value)


def option_text(value: str | None) -> str:
    """An option as it was tracked, in a person's words: `yes`, `no`, `–` where it is not set."""
    return {None: "–", "None": "–", "True": "yes", "False": "no"}.get(value, str(value))


def memory_text(num_bytes: float | None) -> str:
    """`811 MiB`, `–` where nobody measured."""
    return shown(num_bytes and num_bytes / 2**20, "{:,.0f} MiB")


def picture_text(png: bytes, title: str) -> str:
    """A picture inside a Markdown text, for pages that cannot reach the file."""
    return f"![{title}](data:image/png;base64,{b64encode(png).decode()})"
