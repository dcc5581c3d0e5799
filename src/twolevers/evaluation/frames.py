"""Answers and scores as pandas tables, for whoever shows them."""

from __future__ import annotations

import pandas as pd

from twolevers.errors import TwoleversError
from twolevers.evaluation.metrics import exact_match, token_f1
from twolevers.generation.answers import read_answers
from twolevers.records import Responses, Scores

_PER_ANSWER = {"exact_match": exact_match, "token_f1": token_f1}
_NOT_SCORES = {"role", "by_kind", "other", "num_scored", "seconds"}


def responses_frame(base: Responses, tuned: Responses) -> pd.DataFrame:
    """One row an entry of the test split: `row`, `kind`, `instruction`, `input`, `output`, the
    answers `base` and `tuned`, whether each ended, exact match and token F1 of each.

    Raises:
        TwoleversError: the two files do not answer the same entries.
    """
    answers = {"base": read_answers(base), "tuned": read_answers(tuned)}
    asked = [
        [(answer.row, answer.instruction, answer.input, answer.output) for answer in of_role]
        for of_role in answers.values()
    ]
    if asked[0] != asked[1]:
        raise TwoleversError(
            f"{base.path} and {tuned.path} do not answer the same entries; generate both again"
        )
    columns = ["row", "kind", "instruction", "input", "output"]
    table = pd.DataFrame(
        [[getattr(answer, column) for column in columns] for answer in answers["base"]],
        columns=columns,
    )
    for role, of_role in answers.items():
        table[role] = [answer.model_response for answer in of_role]
    for role, of_role in answers.items():
        table[f"{role}_ended"] = [answer.ended for answer in of_role]
        for name, metric in _PER_ANSWER.items():
            table[f"{role}_{name}"] = [
                metric([answer.output], [answer.model_response]) for answer in of_role
            ]
    return table


def answers_frame(responses: Responses) -> pd.DataFrame:
    """One row an answer of one model: the entry, the answer as `response`, whether it ended, exact
    match and token F1."""
    answers = read_answers(responses)
    columns = ["row", "kind", "instruction", "input", "output", "model_response", "ended"]
    table = pd.DataFrame(
        [[getattr(answer, column) for column in columns] for answer in answers], columns=columns
    ).rename(columns={"model_response": "response"})
    for name, metric in _PER_ANSWER.items():
        table[name] = [metric([one.output], [one.model_response]) for one in answers]
    return table


def scores_frame(base: Scores, tuned: Scores) -> pd.DataFrame:
    """One row a metric and kind of task: `metric`, `kind` (`all` for the whole split), `count`,
    `base`, `tuned`, `change` (tuned less base). Losses come first, then the answers' scores."""
    rows = []
    whole = [_whole(scores) for scores in (base, tuned)]
    for metric in whole[0]:
        rows.append((metric, "all", base.num_scored, whole[0][metric], whole[1][metric]))
    for kind, of_base in base.by_kind.items():
        of_tuned = tuned.by_kind[kind]
        for metric in (name for name in of_base if name != "count"):
            rows.append((metric, kind, int(of_base["count"]), of_base[metric], of_tuned[metric]))
    table = pd.DataFrame(rows, columns=["metric", "kind", "count", "base", "tuned"])
    table["change"] = table["tuned"] - table["base"]
    return table


def _whole(scores: Scores) -> dict[str, float]:
    plain = scores.model_dump(exclude=_NOT_SCORES)
    return {**plain, **scores.other}
