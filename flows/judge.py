"""A judge over the answers of one run, or of two side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from flows.terminal import console, errors, shown
from flows.views import grid
from tasks.progress import stage_progress
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, RunStopped
from twolevers.evaluation.judge import Judged, JudgeResult, judge_answers
from twolevers.evaluation.judge_options import JudgeOptions, check_options
from twolevers.evaluation.statistics import Interval
from twolevers.generation.answers import Answer, read_answer_file
from twolevers.progress import Progress, Silent
from twolevers.settings import load_settings
from twolevers.tracking import names
from twolevers.tracking.judged import track_judged
from twolevers.tracking.kinds import check_kind
from twolevers.tracking.queries import find_run
from twolevers.tracking.run_info import RunInfo


def judge(runs: Sequence[str], options: JudgeOptions, as_json: bool) -> None:
    """Judge one run's base and tuned answers, or the tuned answers of two runs; track and print.

    Raises:
        InputError: no such run, one without answers, options that cannot be used.
        TwoleversError: the judge no longer answers.
        RunStopped: Ctrl-C; what was judged is kept.
    """
    if len(runs) > 2 or not runs:
        raise InputError(Problem("--run", None, f"{len(runs)} runs", "give one run, or two"))
    home, settings = writable_home(), load_settings()
    options = check_options(options)
    kinds = (names.FINE_TUNE, names.EVALUATION)
    found = [check_kind(find_run(run, home, settings), run, *kinds, where="--run") for run in runs]
    sets = _of_one(found[0], runs[0]) if len(found) == 1 else _of_two(found, runs)
    try:
        with nullcontext(Silent()) if as_json else _progress() as progress:
            judged = judge_answers(
                sets,
                options,
                folder=home.judgements,
                progress=progress,
                preferences=len(found) == 2,
            )
    except KeyboardInterrupt:
        raise RunStopped(
            "Stopped. What was judged is kept; the same command asks only what is missing."
        ) from None
    against = found[0].run_id if len(found) == 2 else None
    track_judged(str(found[-1].run_id), judged, against)
    if as_json:
        print(judged.result.model_dump_json(indent=2))
    else:
        print_judged(judged, str(found[-1].run_id))


@contextmanager
def _progress() -> Iterator[Progress]:
    with shown(), stage_progress() as progress:
        yield progress


def _of_one(run: RunInfo, asked: str) -> dict[str, list[Answer]]:
    """Both models' answers; of an evaluation those of its one model."""
    roles = [role for role in ("base", "tuned") if _file(run, role)] or ["tuned"]
    sets = [_answers(run, role, asked) for role in roles]
    return dict(zip(roles, _in_common(*sets) if len(sets) == 2 else sets, strict=True))


def _of_two(found: Sequence[RunInfo], asked: Sequence[str]) -> dict[str, list[Answer]]:
    """The answers of both to the entries that both were asked."""
    ids = [str(run.run_id)[:8] for run in found]
    if found[0].run_id == found[1].run_id:
        raise InputError(Problem("--run", asked[1], "is the same run twice", "name another run"))
    both = [_answers(run, _role(run), name) for run, name in zip(found, asked, strict=True)]
    first, second = _in_common(*both)
    if not first:
        raise InputError(
            Problem(
                "--run",
                f"{asked[0]} and {asked[1]}",
                "have no test entry in common",
                "judge each alone, or evaluate both on the same data: twolevers evaluate",
            )
        )
    return {ids[0]: first, ids[1]: second}


def _role(run: RunInfo) -> str:
    """Whose answers a run is about: an evaluation may be of a bare model."""
    bare = run.tags.get(names.KIND) == names.EVALUATION and _file(run, "base")
    return "base" if bare else "tuned"


def _in_common(first: list[Answer], second: list[Answer]) -> tuple[list[Answer], list[Answer]]:
    """Both answers to each entry that both have, in the order of the first."""
    of_entry: dict[tuple[str, str, str], list[Answer]] = defaultdict(list)
    for answer in second:
        of_entry[answer.instruction, answer.input, answer.output].append(answer)
    pairs = []
    for answer in first:
        if same := of_entry[answer.instruction, answer.input, answer.output]:
            pairs.append((answer, same.pop(0)))
    if len(pairs) < max(len(first), len(second)):
        errors.print(
            f"{len(pairs):,} entries are common to both, of {len(first):,} and "
            f"{len(second):,}; the others are left out.",
            style="dim",
        )
    return [one for one, _ in pairs], [two for _, two in pairs]


def _answers(run: RunInfo, role: str, asked: str) -> list[Answer]:
    file = _file(run, role)
    if file is None:
        raise InputError(
            Problem(
                "--run",
                asked,
                f"has no answers of the {role} model on this machine",
                "choose a run that has finished (twolevers runs), or let the model answer: "
                "twolevers evaluate",
            )
        )
    return read_answer_file(file)


def _file(run: RunInfo, role: str) -> Path | None:
    places = [place for place in (run.folder, run.artifacts) if place]
    files = (place / f"responses-{role}.jsonl" for place in places)
    return next((file for file in files if file.is_file()), None)


def print_judged(judged: Judged, run_id: str) -> None:
    """Means with their intervals, the comparison, coverage, spread, and what it took."""
    result = judged.result
    console.print()
    console.rule(f"[bold]{escape(result.judge.model)}[/bold] as judge, 0 to 100", align="left")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("answers of", "mean", "95 % interval", "scored", "unscored"):
        table.add_column(name, justify="left" if name == "answers of" else "right")
    for name, of_set in result.sets.items():
        mean = of_set.mean
        table.add_row(
            escape(name),
            f"{mean.mean:.2f}" if mean else "–",
            f"{mean.low:.2f} to {mean.high:.2f}" if mean else "–",
            f"{of_set.num_scored} of {of_set.num_answers} ({of_set.coverage:.0%})",
            str(of_set.num_unscored),
        )
    console.print(table)
    console.print(grid(_lines(result, run_id)))
    if result.stopped:
        console.print(
            f"[bold]Stopped by {escape(result.stopped)}.[/bold] What was judged is kept; the same "
            "command with a higher limit asks only what is missing."
        )
    if result.advice:
        console.print(result.advice)
    if result.num_failed:
        console.print(
            f"{result.num_failed} questions got no reply; the same command asks them again."
        )


def _lines(result: JudgeResult, run_id: str) -> dict[str, str]:
    lines = {}
    names = list(result.sets)
    if (paired := result.difference) is not None:
        lines[f"{names[1]} less {names[0]}"] = (
            f"{_signed(paired.difference)}; better {paired.wins}, the same {paired.ties}, "
            f"worse {paired.losses}"
        )
    if (preferred := result.preference) is not None:
        unscored = f", unscored {preferred.num_unscored}" if preferred.num_unscored else ""
        lines[f"{names[1]} preferred"] = (
            f"{preferred.wins}, neither {preferred.ties} (of which {preferred.flipped} changed "
            f"with the order), {names[0]} preferred {preferred.losses}{unscored}"
        )
    if (spread := result.spread) is not None:
        lines["the judge's own spread"] = (
            f"{spread.mean_difference:.2f} points apart on average, {spread.largest:.0f} at most "
            f"({spread.count} answers judged twice)"
        )
    if result.unscored_reply:
        lines["a reply without a score"] = result.unscored_reply
    cost = "" if result.cost is None else f", cost {result.cost:.4f}"
    lines["asked"] = (
        f"{result.num_asked:,} questions now, {result.num_kept:,} kept from before; "
        f"{result.prompt_tokens + result.reply_tokens:,} tokens{cost}, {result.seconds:.1f} s"
    )
    judge = result.judge
    served = judge.served if "://" in judge.served else judge.served[:12]
    lines["judge"] = (
        f"{judge.protocol}, {served}, prompt {judge.prompt} "
        f"({judge.prompt_sha256[:8]})"
        + ("" if "seed" in result.left_out else f", seed {judge.seed}")
        + (f"; does not take {', '.join(result.left_out)}" if result.left_out else "")
    )
    lines["tracked in"] = f"{run_id}, under judge/"
    return lines


def _signed(interval: Interval) -> str:
    return f"{interval.mean:+.2f} ({interval.low:+.2f} to {interval.high:+.2f})"
