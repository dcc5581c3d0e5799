"""The stage `evaluate`: one function scores base and tuned model alike."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from twolevers.computing import computing
from twolevers.data.batch import IGNORE_INDEX, Batch, Row, collate
from twolevers.data.order import batch_order
from twolevers.data.split import TokenisedSplit, load_split
from twolevers.device import Device
from twolevers.errors import TrainingError, TwoleversError
from twolevers.evaluation.likelihood import of_targets
from twolevers.evaluation.metrics import answer_scores
from twolevers.generation.answers import Answer, read_answers
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.records import Responses, Role, ScoredSplit, Scores, TokenisedData
from twolevers.training.loss import mean_loss
from twolevers.training.precision import autocast


class Loss(NamedTuple):
    """Of one row, or of several together."""

    nats: float
    tokens: int
    """Supervised ones."""


def score(
    role: Role,
    path: Path,
    data: TokenisedData,
    responses: Responses,
    *,
    config: GPT2Config | None,
    device: Device,
    precision: str,
    batch_size: int,
    split: ScoredSplit = "test",
) -> Scores:
    """Loss of the model in `path` on the whole split that was answered (beside the test split also
    on the validation split), and the scores of its answers. The answers are read from their file,
    never generated here.

    Raises:
        TwoleversError: the answers are another model's, incomplete, or cannot be read.
        TrainingError: a loss is no finite number.
    """
    started = time.perf_counter()
    if responses.role != role:
        raise TwoleversError(f"{responses.path}: holds the {responses.role} model's answers")
    answers = read_answers(responses)
    model = load_model(path, config, device=device.name)
    rows = load_split(data, split)
    with computing(), autocast(device, precision):
        val_loss = None
        if split == "test":
            val_rows = load_split(data, "val")
            val_loss = _finite(mean_loss(model, _batches(val_rows, batch_size)), "val")
        losses = losses_of_rows(model, rows, batch_size)
    test_loss = _finite(_mean(losses.values()), split)
    scores = score_answers(answers)
    fields = {name: value for name, value in scores.items() if name in Scores.model_fields}
    return Scores.model_validate(
        {
            "role": role,
            "val_loss": val_loss,
            "test_loss": test_loss,
            "perplexity": perplexity(test_loss),
            "num_scored": len(answers),
            "other": {name: value for name, value in scores.items() if name not in fields},
            "by_kind": scores_by_kind(answers, losses),
            "seconds": time.perf_counter() - started,
            **fields,
        }
    )


def score_answers(answers: Sequence[Answer]) -> dict[str, float]:
    """Every metric on these answers, and `never_ended`: the share of answers that the model did not
    end itself, cut off at the longest length or by the context. It leaves out why, and whether the
    answer was right by then."""
    scores = answer_scores(
        [answer.output for answer in answers], [answer.model_response for answer in answers]
    )
    return scores | {"never_ended": sum(not answer.ended for answer in answers) / len(answers)}


def scores_by_kind(
    answers: Sequence[Answer], losses: Mapping[int, Loss]
) -> dict[str, dict[str, float]]:
    """Every score per kind of task to four decimals, with the `count` of answers; entries without
    a kind are in none. Kinds in alphabetical order.

    Args:
        losses: of the rows that were answered, by their numbers in the file.
    """
    kinds: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.kind:
            kinds.setdefault(answer.kind, []).append(answer)
    return {kind: _of_kind(of_kind, losses) for kind, of_kind in sorted(kinds.items())}


def _of_kind(answers: Sequence[Answer], losses: Mapping[int, Loss]) -> dict[str, float]:
    loss = _mean(losses[answer.row] for answer in answers)
    scores = {"test_loss": loss, "perplexity": perplexity(loss), **score_answers(answers)}
    return {"count": len(answers), **{name: round(scores[name], 4) for name in scores}}


@torch.no_grad()
def losses_of_rows(model: GPT2, rows: TokenisedSplit, batch_size: int) -> dict[int, Loss]:
    """The loss of each row, by its number in the file, dropout off.

    As `mean_loss`, but for a prefix that rows share: it is computed with each.
    """
    training, device = model.training, model.wte.weight.device
    model.eval()
    losses: dict[int, Loss] = {}
    try:
        for indices in batch_order(len(rows), batch_size, seed=None, epoch=0, drop_last=False):
            batch = collate([rows[index] for index in indices])
            counts = [
                int((targets != IGNORE_INDEX).sum())
                for targets in batch.target_ids.split(batch.lengths)
            ]
            logprobs, _ = of_targets(model, batch.to(device))
            for index, own in zip(indices, logprobs.split(counts), strict=True):
                losses[rows.row_number(index)] = Loss(-own.sum().item(), len(own))
    finally:
        model.train(training)
    return losses


def _mean(losses: Iterable[Loss]) -> float:
    """Nats per supervised token; NaN where there is none."""
    nats, tokens = (sum(column) for column in zip(*losses, strict=True))
    return nats / tokens if tokens else math.nan


def perplexity(loss: float) -> float:
    """exp(loss): among how many equally likely tokens the model in effect chooses.

    Comparable only between models of one vocabulary. A loss over 709 would overflow; the
    largest number that JSON can carry stands for it.
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return 1.7976931348623157e308


def _finite(loss: float, split: str) -> float:
    if not math.isfinite(loss):
        raise TrainingError(
            f"evaluation: the loss on the {split} split is {loss}; the model's weights are "
            "damaged or its precision is too narrow: try --precision float32"
        )
    return loss


def _batches(rows: Sequence[Row], batch_size: int) -> Iterator[Batch]:
    order = batch_order(len(rows), batch_size, seed=None, epoch=0, drop_last=False)
    for indices in order:
        yield collate([rows[index] for index in indices], share_prefix=True)
