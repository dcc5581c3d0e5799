"""Answers scored by a judge: each from 0 to 100 against its reference, the reason kept.

Why: the one score here that credits what is right in other words.
Leaves out: whether the judge is right. It is a model: it has its own spread (measured on a sample
asked twice), its own taste (longer answers, its own style), and scores of two judges, or of two
prompts, cannot be compared.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from twolevers.errors import InputError, Problem
from twolevers.evaluation.judge_asking import Question, Spent, ask_all
from twolevers.evaluation.judge_options import Judge, JudgeOptions, check_options
from twolevers.evaluation.judge_prompts import PREFERENCE, SCORE_PROMPTS
from twolevers.evaluation.judge_replies import excerpt
from twolevers.evaluation.judge_waits import Sleep
from twolevers.evaluation.judgements import Judgement, Judgements
from twolevers.evaluation.statistics import Interval, Paired, interval, paired
from twolevers.generation.answers import Answer
from twolevers.progress import Progress
from twolevers.records import Record

FOLDER = "judgements"


class SetScore(Record):
    """The judge's scores of one model's answers, 0 to 100."""

    mean: Interval | None
    """Over the answers that have a score; None where none has."""
    num_answers: int
    num_scored: int
    num_unscored: int
    """Judged twice without a number; they count neither as 0 nor at all. The rest was not asked."""

    @property
    def coverage(self) -> float:
        """Share of the answers that have a score."""
        return self.num_scored / self.num_answers if self.num_answers else 0.0


class Spread(Record):
    """How far two judgements of one and the same answer are apart: the judge's own noise."""

    mean_difference: float
    """Mean of the absolute differences, in points from 0 to 100."""
    largest: float
    count: int
    """Answers that were scored twice."""


class Preference(Record):
    """Which of two answers the judge prefers, asked in both orders."""

    wins: int
    """Entries on which the second is preferred, whichever was shown first."""
    ties: int
    """Neither; or the preference changed with the order; or the answers are the same."""
    losses: int
    flipped: int
    """Those of the ties that changed with the order."""
    num_unscored: int


class JudgeResult(Record):
    """What a judge made of one or two sets of answers to the same entries."""

    judge: Judge
    sets: dict[str, SetScore]
    difference: Paired | None
    """The second set's scores against the first's; None where there is one."""
    preference: Preference | None
    spread: Spread | None
    num_asked: int
    num_kept: int
    """Questions that had been answered before."""
    num_failed: int
    """Questions that got no reply; they are asked again next time."""
    prompt_tokens: int
    reply_tokens: int
    cost: float | None
    """By the prices given; None where none was."""
    seconds: float
    stopped: str
    """The limit that ended it early, empty where none did."""
    left_out: tuple[str, ...] = ()
    """Settings of `judge` that its server did not take; some or all were asked without."""
    unscored_reply: str = ""
    """One of the replies that held no score, shortened; empty where all did."""

    @property
    def advice(self) -> str:
        """What to do where nothing was scored; empty where something was."""
        if any(of_set.num_scored for of_set in self.sets.values()):
            return ""
        if self.unscored_reply:
            return (
                "No reply held a score: name another --judge-model, or give it longer replies "
                "(--max-reply-tokens): one that thinks first may not have come to its end."
            )
        if self.stopped and not (self.num_asked or self.num_failed):
            return "The judge gave no reply until then: it may be loading its model, or hang."
        return ""


@dataclass(frozen=True)
class Judged:
    """A result, and its table: one row an entry."""

    result: JudgeResult
    table: pd.DataFrame
    """`row`, `kind`, `instruction`, `input`, `output`; for each set its answer under its name,
    `NAME_score` and `NAME_reason`; `preference` where it was asked."""


def judge_answers(
    sets: Mapping[str, Sequence[Answer]],
    asked: JudgeOptions,
    *,
    folder: Path,
    progress: Progress,
    preferences: bool = False,
    sleep: Sleep = asyncio.sleep,
) -> Judged:
    """Has one or two sets of answers to the same entries judged.

    Args:
        sets: one or two, by name; the second is compared with the first.
        folder: where judgements are kept and looked for.
        preferences: also ask which of the two answers is better, in both orders.
        sleep: waits between two attempts.

    Raises:
        InputError: options that cannot be used, no such model, no server there, no answers.
        TwoleversError: the judge no longer answers. What was judged is kept.
    """
    options = check_options(asked)
    names, answers = list(sets), list(sets.values())
    if not answers[0]:
        raise InputError(Problem("judge", None, "there is no answer to judge", "generate some"))
    questions = _Questions(options, answers, preferences)
    judge, kept, spent = ask_all(
        questions.all(),
        options,
        lambda judge: Judgements(folder, judge, judge.sha256),
        progress,
        sleep,
    )
    found = [[kept.get(q.key) for q in of_set] for of_set in questions.scores]
    values = [[one.value if one else None for one in of_set] for of_set in found]
    choices = [
        _choice(pair, answers, index, kept) for index, pair in enumerate(questions.preferences)
    ]
    return Judged(
        JudgeResult(
            judge=judge,
            sets={
                name: _set_score(of_set, seed=options.seed)
                for name, of_set in zip(names, found, strict=True)
            },
            difference=paired(*values, seed=options.seed) if len(values) == 2 else None,
            preference=_preference(choices) if choices else None,
            spread=_spread(questions, kept),
            left_out=_left_out(questions.all(), kept),
            unscored_reply=_unscored_reply(found),
            **_spent(spent, options),
        ),
        _table(names, answers, found, choices),
    )


class _Questions:
    """What there is to ask, the two sets entry by entry, so that a limit leaves whole pairs."""

    def __init__(
        self, options: JudgeOptions, answers: Sequence[Sequence[Answer]], preferences: bool
    ) -> None:
        prompt = SCORE_PROMPTS[options.prompt]
        self.scores = [
            [Question(prompt, prompt.render(answer)) for answer in of_set] for of_set in answers
        ]
        different = list({question.key: question for question in self.scores[-1]}.values())
        sample = random.Random(options.seed).sample(
            different, min(options.ask_twice, len(different))
        )
        self.again = [(question, Question(prompt, question.text, 1)) for question in sample]
        self.preferences: list[tuple[Question, Question] | None] = []
        if preferences:
            for one, two in zip(*answers, strict=True):
                there, back = (one, two.model_response), (two, one.model_response)
                asked = [Question(PREFERENCE, PREFERENCE.render(*order)) for order in (there, back)]
                same = one.model_response == two.model_response
                self.preferences.append(None if same else (asked[0], asked[1]))

    def all(self) -> list[Question]:
        entries = [question for entry in zip(*self.scores, strict=True) for question in entry]
        again = [second for _, second in self.again]
        return [*entries, *again, *(one for pair in self.preferences if pair for one in pair)]


Choice = str
"""`win` (the second answer), `tie`, `flipped` (a tie too), `loss`, `unscored`, or empty: not
asked."""


def _choice(
    pair: tuple[Question, Question] | None,
    answers: Sequence[Sequence[Answer]],
    index: int,
    kept: Judgements,
) -> Choice:
    if pair is None:
        return "tie"
    there, back = (kept.get(question.key) for question in pair)
    if there is None or back is None:
        return ""
    if there.value is None or back.value is None:
        return "unscored"
    # In the first order A is the first set's answer, in the second the second's.
    votes = (-there.value, back.value)
    if votes[0] == votes[1]:
        return {1.0: "win", -1.0: "loss"}.get(votes[0], "tie")
    return "flipped" if votes[0] == -votes[1] else "tie"


def _preference(choices: Sequence[Choice]) -> Preference:
    count = {name: choices.count(name) for name in ("win", "tie", "flipped", "loss", "unscored")}
    return Preference(
        wins=count["win"],
        ties=count["tie"] + count["flipped"],
        losses=count["loss"],
        flipped=count["flipped"],
        num_unscored=count["unscored"],
    )


def _set_score(judgements: Sequence[Judgement | None], *, seed: int) -> SetScore:
    values = [one.value for one in judgements if one]
    scores = [value for value in values if value is not None]
    return SetScore(
        mean=interval(scores, seed=seed),
        num_answers=len(judgements),
        num_scored=len(scores),
        num_unscored=len(values) - len(scores),
    )


def _spread(questions: _Questions, kept: Judgements) -> Spread | None:
    pairs = [[kept.get(question.key) for question in pair] for pair in questions.again]
    apart = [
        abs(one.value - two.value)
        for one, two in pairs
        if one and two and one.value is not None and two.value is not None
    ]
    if not apart:
        return None
    return Spread(mean_difference=sum(apart) / len(apart), largest=max(apart), count=len(apart))


def _left_out(questions: Sequence[Question], kept: Judgements) -> tuple[str, ...]:
    found = (kept.get(question.key) for question in questions)
    return tuple(sorted({name for one in found if one for name in one.left_out}))


def _unscored_reply(found: Sequence[Sequence[Judgement | None]]) -> str:
    replies = (one.reply for of_set in found for one in of_set if one and one.value is None)
    return next((excerpt(reply) or "(nothing)" for reply in replies), "")


def _spent(spent: Spent, options: JudgeOptions) -> dict[str, object]:
    priced = bool(options.price_in or options.price_out)
    return {
        "num_asked": spent.asked,
        "num_kept": spent.kept,
        "num_failed": spent.failed,
        "prompt_tokens": spent.prompt_tokens,
        "reply_tokens": spent.reply_tokens,
        "cost": spent.cost(options) if priced else None,
        "seconds": spent.seconds,
        "stopped": spent.stopped,
    }


def _table(
    names: Sequence[str],
    answers: Sequence[Sequence[Answer]],
    found: Sequence[Sequence[Judgement | None]],
    choices: Sequence[Choice],
) -> pd.DataFrame:
    columns = ["row", "kind", "instruction", "input", "output"]
    table = pd.DataFrame(
        [[getattr(answer, column) for column in columns] for answer in answers[0]], columns=columns
    )
    for name, of_set, judgements in zip(names, answers, found, strict=True):
        table[name] = [answer.model_response for answer in of_set]
        table[f"{name}_score"] = pd.array(
            [one.value if one else None for one in judgements], dtype="Float64"
        )
        table[f"{name}_reason"] = [one.reason if one else "" for one in judgements]
    if choices:
        table["preference"] = list(choices)
    return table
