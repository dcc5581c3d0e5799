"""The stage `evaluate`: one function scores base and tuned model alike."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from twolevers.computing import computing
from twolevers.data.batch import Batch, Row, collate
from twolevers.data.order import batch_order
from twolevers.data.split import load_split
from twolevers.device import Device
from twolevers.errors import TrainingError, TwoleversError
from twolevers.evaluation.metrics import MEASURES, answer_scores
from twolevers.generation.answers import Answer, read_answers
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.records import Responses, Role, ScoredSplit, Scores, TokenisedData
from twolevers.training.loss import mean_loss
from twolevers.training.precision import autocast


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
    losses_of: tuple[ScoredSplit, ...] = ("val", "test") if split == "test" else (split,)
    with computing(), autocast(device, precision):
        losses = {
            name: _split_loss(model, name, load_split(data, name), batch_size) for name in losses_of
        }
    scores = score_answers(answers)
    fields = {name: value for name, value in scores.items() if name in Scores.model_fields}
    return Scores.model_validate(
        {
            "role": role,
            "val_loss": losses["val"] if split == "test" else None,
            "test_loss": losses[split],
            "perplexity": perplexity(losses[split]),
            "num_scored": len(answers),
            "other": {name: value for name, value in scores.items() if name not in fields},
            "by_kind": scores_by_kind(answers),
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


def scores_by_kind(answers: Sequence[Answer]) -> dict[str, dict[str, float]]:
    """The scores per kind of task to four decimals, and `never_ended`, with the `count` of answers;
    entries without a kind are in none. Kinds in alphabetical order.

    Length and repetition are told of the whole alone: a record stays below 10 kB.
    """
    kinds: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.kind:
            kinds.setdefault(answer.kind, []).append(answer)
    return {
        kind: {"count": float(len(of_kind)), **_of_kind(score_answers(of_kind))}
        for kind, of_kind in sorted(kinds.items())
    }


def _of_kind(scores: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in scores.items() if name not in MEASURES}


def perplexity(loss: float) -> float:
    """exp(loss): among how many equally likely tokens the model in effect chooses.

    Comparable only between models of one vocabulary. A loss over 709 would overflow; the
    largest number that JSON can carry stands for it.
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return 1.7976931348623157e308


def _split_loss(model: GPT2, name: str, rows: Sequence[Row], batch_size: int) -> float:
    """Mean nats per supervised token over all rows, as in training."""
    loss = mean_loss(model, _batches(rows, batch_size))
    if not math.isfinite(loss):
        raise TrainingError(
            f"evaluation: the loss on the {name} split is {loss}; the model's weights are "
            "damaged or its precision is too narrow: try --precision float32"
        )
    return loss


def _batches(rows: Sequence[Row], batch_size: int) -> Iterator[Batch]:
    order = batch_order(len(rows), batch_size, seed=None, epoch=0, drop_last=False)
    for indices in order:
        yield collate([rows[index] for index in indices], share_prefix=True)
