"""How likely a model finds given continuations: the log-probability of each, and whether it would
have written it itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from twolevers.data.batch import IGNORE_INDEX, Batch, collate
from twolevers.data.row import Row
from twolevers.models.attention import causal_within
from twolevers.models.gpt2 import GPT2
from twolevers.training.loss import CHUNK_BYTES

JOINED_TOKENS = 2048
"""A batch is closed when it has this many tokens."""


@dataclass(frozen=True)
class Likelihood:
    """Of one continuation."""

    logprob: float
    """Nats, summed over its tokens."""
    greedy: bool
    """Each of its tokens was the likeliest one."""
    num_tokens: int


@torch.no_grad()
def likelihoods(model: GPT2, pairs: Sequence[tuple[list[int], list[int]]]) -> list[Likelihood]:
    """Each pair's continuation after its context, in the order given.

    What does not fit the model's context is cut from the front of the context, as the evaluation
    harness does. Call it inside `autocast` for another precision than float32.

    Args:
        pairs: token ids of context and continuation. Neither is empty, and a continuation is not
            longer than the model's context.
    """
    training, device = model.training, model.wte.weight.device
    model.eval()
    rows = [
        _row(context, continuation, model.config.context_length) for context, continuation in pairs
    ]
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index].token_ids))
    found: dict[int, Likelihood] = {}
    try:
        for indices in _batches(rows, order):
            batch = collate([rows[index] for index in indices]).to(device)
            logprobs, is_greedy = of_targets(model, batch)
            counts = [len(pairs[index][1]) for index in indices]
            for index, own, greedy in zip(
                indices, logprobs.split(counts), is_greedy.split(counts), strict=True
            ):
                found[index] = Likelihood(own.sum().item(), bool(greedy.all()), len(own))
    finally:
        model.train(training)
    return [found[index] for index in range(len(pairs))]


def _row(context: list[int], continuation: list[int], context_length: int) -> Row:
    """One more token than the model sees at once: the last is only a target."""
    token_ids = [*context, *continuation][-(context_length + 1) :]
    return Row(token_ids, len(token_ids) - len(continuation))


def _batches(rows: Sequence[Row], order: Sequence[int]) -> Iterator[list[int]]:
    indices: list[int] = []
    tokens = 0
    for index in order:
        indices.append(index)
        tokens += len(rows[index].token_ids)
        if tokens >= JOINED_TOKENS:
            yield indices
            indices, tokens = [], 0
    if indices:
        yield indices


def of_targets(model: GPT2, batch: Batch) -> tuple[Tensor, Tensor]:
    """Log-probability of each supervised target, (K,) float64, and whether it is the likeliest."""
    hidden = model(batch.input_ids, batch.positions, causal_within(batch.lengths, batch.prefix))
    supervised = batch.target_ids != IGNORE_INDEX
    hidden, targets = hidden[supervised], batch.target_ids[supervised]  # (K, C), (K,)
    budget = CHUNK_BYTES.get(hidden.device.type, CHUNK_BYTES["cpu"])
    chunk = max(1, budget // (4 * model.config.vocab_size))
    logprobs, greedy = [], []
    for states, wanted in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        logits = model.logits(states).float()  # (chunk, V)
        own = logits.gather(1, wanted[:, None])[:, 0]
        logprobs.append((own - logits.logsumexp(1)).cpu().double())
        greedy.append((own >= logits.amax(1)).cpu())
    return torch.cat(logprobs), torch.cat(greedy)
