"""What a judge made of a run, kept with the run in MLflow."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from twolevers.evaluation.judge import Judged, JudgeResult
from twolevers.settings import Home, Settings, load_settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import attach_run
from twolevers.tracking.queries import find_run
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.traces import ScoredAnswer, Verdict, computed
from twolevers.tracking.values import clean_key


def track_judged(run_id: str, judged: Judged, against: str | None = None) -> None:
    """Metrics, tags and table of a judgement, in the run that it is of.

    Metrics and table lie under `judge/JUDGE`, those of a comparison under `judge/against/ID/JUDGE`:
    what two judges say is never mixed. Tags and the answers in MLflow's evaluation pages are of the
    newest judgement, but one that was stopped leaves those of a whole one.

    Args:
        against: id of another run that it was compared with.
    """
    result = judged.result
    judge = result.judge
    name = clean_key(f"{judge.model.replace('/', '_')}-{judge.sha256[:8]}")
    place = f"judge/{name}" if against is None else f"judge/against/{against[:8]}/{name}"
    home, settings, left_out = Home(), load_settings(), set(result.left_out)
    owners = [run_id] * len(result.sets) if against is None else [against, run_id]
    kept = {owner for owner in owners if result.stopped and _is_whole(owner, home, settings)}
    with attach_run(home=home, settings=settings, run_id=run_id) as tracker:
        tracker.log_metrics({f"{place}/{key}": value for key, value in _figures(result)}, step=0)
        tracker.log_table(judged.table, f"{place}.json")
        if run_id not in kept:
            tracker.set_tags(
                {
                    **({names.JUDGE: name} if against is None else {}),
                    "twolevers.judge.model": judge.model,
                    "twolevers.judge.prompt_sha256": judge.prompt_sha256,
                    "twolevers.judge.sha256": judge.sha256,
                    "twolevers.judge.settings": judge.model_dump_json(exclude=left_out),
                    "twolevers.judge.left_out": ", ".join(result.left_out) or "none",
                    names.JUDGE_STOPPED: result.stopped or "no",
                }
            )
    for of, owner in zip(result.sets, owners, strict=True):
        if owner in kept:
            continue
        with attach_run(home=home, settings=settings, run_id=owner) as tracker:
            tracker.log_answers(of if against is None else "tuned", _answers(judged, of))


def judged_mean(run: RunInfo) -> tuple[str, float] | None:
    """The newest judge's model and the mean that it gave, to the tuned model where there is one."""
    means = (
        run.metrics.get(f"judge/{run.tags.get(names.JUDGE)}/{role}_mean")
        for role in reversed(names.ROLES)
    )
    mean = next((mean for mean in means if mean is not None), None)
    return None if mean is None else (run.tags.get("twolevers.judge.model", "–"), mean)


def _is_whole(run_id: str, home: Home, settings: Settings) -> bool:
    """Whether a judgement is tracked that came to its end."""
    return find_run(run_id, home, settings).tags.get(names.JUDGE_STOPPED) == "no"


def _answers(judged: Judged, of: str) -> list[ScoredAnswer]:
    """The answers of one set with what the judge made of them, and what needs no judge."""
    answers = []
    for row in judged.table.to_dict("records"):
        verdicts = computed(row["output"], row[of])
        if not pd.isna(score := row[f"{of}_score"]):
            reason, judge = row[f"{of}_reason"], judged.result.judge.model
            verdicts["judge"] = Verdict(float(score), reason, judge)
        asked = row["instruction"], row["input"]
        answers.append(ScoredAnswer(*asked, row[of], row["output"], verdicts, row["kind"]))
    return answers


def _figures(result: JudgeResult) -> Iterator[tuple[str, float]]:
    for name, of_set in result.sets.items():
        yield f"{name}_coverage", of_set.coverage
        yield f"{name}_unscored", of_set.num_unscored
        if of_set.mean:
            yield f"{name}_mean", of_set.mean.mean
            yield f"{name}_low", of_set.mean.low
            yield f"{name}_high", of_set.mean.high
    if result.difference:
        yield "difference", result.difference.difference.mean
        yield "difference_low", result.difference.difference.low
        yield "difference_high", result.difference.difference.high
        for name in ("wins", "ties", "losses"):
            yield name, getattr(result.difference, name)
    if result.preference:
        for name in ("wins", "ties", "losses", "flipped"):
            yield f"preferred_{name}", getattr(result.preference, name)
    if result.spread:
        yield "spread", result.spread.mean_difference
    yield "tokens", result.prompt_tokens + result.reply_tokens
    yield "seconds", result.seconds
    if result.cost is not None:
        yield "cost", result.cost
