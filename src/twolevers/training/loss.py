"""The loss: cross-entropy in nats, summed over supervised tokens.

A sum, not a mean: whoever adds batches up (gradient accumulation, an evaluation over several
batches) divides once, by all supervised tokens, so that every token counts the same.

Letters: N positions whose loss is computed (supervised, a shared prefix once), K of them in one
chunk, C embedding, V vocabulary.

`loss_sum` is what training and evaluation call. It walks over the tokens in chunks and computes
a chunk's logits, its loss and its share of the gradients in one go ("fused linear cross-entropy",
as in Liger Kernel, Hsu et al. 2024), so that the (N, V) logits are never held, let alone twice.
`plain_loss_sum` is the same in one line of PyTorch, and the test of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from twolevers.data.batch import IGNORE_INDEX, Batch
from twolevers.models.attention import causal_within, plain_causal_within
from twolevers.models.gpt2 import GPT2
from twolevers.training.tied_gradient import TiedGradient

CHUNK_BYTES = {"cpu": 96 * 2**20, "cuda": 512 * 2**20, "mps": 128 * 2**20}
"""Float32 logits held at once. On a CPU larger chunks fall out of the cache, and smaller ones
read the embedding and its gradient too often."""
_BLOCK_ROWS = 4096
"""Of the vocabulary; twice as many or half as many are as fast."""


def plain_loss_sum(model: GPT2, batch: Batch) -> Tensor:
    """Summed loss of a batch (no shared prefix) by way of all logits: the test of `loss_sum`."""
    hidden = model(batch.input_ids, batch.positions, plain_causal_within(batch.lengths))
    return F.cross_entropy(
        model.logits(hidden), batch.target_ids, ignore_index=IGNORE_INDEX, reduction="sum"
    )


def loss_sum(model: GPT2, batch: Batch, *, divisor: float = 1) -> Tensor:
    """Summed loss of a batch on the model's device, divided by `divisor`; differentiable once.

    Returns:
        A float32 scalar: nats, summed over `batch.num_supervised` tokens, over `divisor`. To
        divide here and not afterwards saves a pass over the largest gradient.
    """
    tied = TiedGradient()
    hidden = model.hidden(
        tied.look_up(batch.input_ids, model.wte.weight),
        batch.positions,
        causal_within(batch.lengths, batch.prefix),
    )  # (tokens, C)
    targets, weights = batch.target_ids, batch.weights / divisor
    if batch.num_supervised < batch.num_tokens:
        supervised = targets != IGNORE_INDEX
        hidden, targets, weights = hidden[supervised], targets[supervised], weights[supervised]
    # Asked here: inside of an autograd function gradients are always switched off.
    wants_gradients = torch.is_grad_enabled()
    loss: Tensor = _LinearCrossEntropy.apply(
        hidden, model.wte.weight, targets, weights, tied if wants_gradients else None
    )
    return loss


@torch.no_grad()
def mean_loss(model: GPT2, batches: Iterable[Batch]) -> float:
    """Nats per supervised token over all the batches together, dropout off.

    Not the mean of the batches' means: a batch counts by its tokens. Call it inside `autocast`
    for another precision than float32. NaN where no token is supervised.
    """
    training, device = model.training, model.wte.weight.device
    model.eval()
    losses, tokens = [], 0
    try:
        for batch in batches:
            losses.append(loss_sum(model, batch.to(device)))
            tokens += batch.num_supervised
    finally:
        model.train(training)
    total = sum(loss.item() for loss in losses)  # read at the end: a GPU is not waited for
    return total / tokens if tokens else float("nan")


class _LinearCrossEntropy(torch.autograd.Function):
    """Loss of (N, C) hidden states under the output layer `weight` (V, C), and both gradients.

    The gradients are known once the logits are, so they are computed on the way forward, while a
    chunk's probabilities lie in the cache; backward only scales them, in place, and so works once.
    Under autocast the products are done in its precision; softmax, the loss and the sums over
    chunks stay in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        weights: Tensor,
        tied: TiedGradient | None,
    ) -> Tensor:
        kind = hidden.device.type
        fast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
        ctx.hidden_dtype, ctx.tied = hidden.dtype, tied
        hidden, weight = hidden.to(fast), weight.to(fast)
        with torch.autocast(kind, enabled=False):
            loss, ctx.gradients = _walk(hidden, weight, targets, weights, tied is not None)
            if not loss.isfinite():
                loss = _exact_loss(hidden, weight, targets, weights)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, None, None, None, None]:
        if ctx.gradients is None:
            raise RuntimeError("the gradient of this loss was taken already: compute it again")
        hidden_grad, weight_grad = ctx.gradients
        ctx.gradients = None
        if not scale.is_cpu or scale != 1:  # asking a GPU would mean to wait for it
            hidden_grad.mul_(scale)
            weight_grad.mul_(scale)
        ctx.tied.of_output_layer = weight_grad
        return hidden_grad.to(ctx.hidden_dtype), None, None, None, None


def _walk(
    hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, wants_gradients: bool
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """Summed loss and (where wanted) the gradients of `hidden` and `weight`, all float32."""
    num_tokens, vocab_size = len(targets), len(weight)
    chunk, held = _chunk_length(num_tokens, vocab_size, hidden.device.type)
    # (K, V), used again by every chunk. Of one size whatever the batch, so that the memory that one
    # step frees fits the next.
    buffer = hidden.new_empty((held, vocab_size), dtype=torch.float32)
    loss = buffer.new_zeros(())
    if wants_gradients:
        hidden_grad = torch.empty_like(hidden, dtype=torch.float32)
        weight_grad = torch.empty_like(weight, dtype=torch.float32)
        if num_tokens == 0:
            weight_grad.zero_()
    blocks = _blocks(weight)
    for start in range(0, num_tokens, chunk):
        part = hidden[start : start + chunk]  # (K, C)
        target = targets[start : start + chunk, None]  # (K, 1)
        stands_for = weights[start : start + chunk, None]  # (K, 1)
        logits = buffer[: len(part)]  # (K, V)
        for rows in blocks:
            _product(part, weight[rows].t(), out=logits[:, rows])
        probabilities = torch.softmax(logits, 1, out=logits)
        loss -= (probabilities.gather(1, target).log_() * stands_for).sum()
        if wants_gradients:
            # d loss / d logits = probabilities, less one at the target
            minus_one = probabilities.new_full((), -1.0).expand(target.shape)
            slopes = probabilities.scatter_add_(1, target, minus_one)
            part_grad, weighted = hidden_grad[start : start + chunk], (part * stands_for).to(part)
            for rows in blocks:
                slope = slopes[:, rows].to(weight.dtype)
                _add_product(part_grad, slope, weight[rows], first=rows is blocks[0])
                _add_product(weight_grad[rows], slope.t(), weighted, first=start == 0)
            part_grad *= stands_for
    return loss, (hidden_grad, weight_grad) if wants_gradients else None


def _blocks(weight: Tensor) -> list[slice]:
    """Rows of the vocabulary whose products are taken at once: all of them, but for a CPU in less
    than float32. It rounds each product before it can be added to a float32 sum: while a block
    lies in the cache that costs next to nothing."""
    size = _BLOCK_ROWS if weight.is_cpu and weight.dtype != torch.float32 else len(weight)
    return [slice(row, row + size) for row in range(0, len(weight), size)]


def _exact_loss(hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Summed loss where a target's probability is below what float32 can hold (over 87 nats).

    Slower by two passes over the logits, and needed so seldom that the usual walk leaves it out.
    """
    losses = [
        F.cross_entropy(_product(part, weight.t()), target, reduction="none") @ share
        for part, target, share in zip(
            hidden.split(32), targets.split(32), weights.split(32), strict=True
        )
    ]
    return torch.stack(losses).sum()


def _chunk_length(num_tokens: int, vocab_size: int, kind: str) -> tuple[int, int]:
    """Tokens a chunk, chunks of equal length, and how many the budget would have allowed where
    there is more than one chunk."""
    limit = max(1, CHUNK_BYTES.get(kind, CHUNK_BYTES["cpu"]) // (4 * vocab_size))
    num_chunks = max(1, -(-num_tokens // limit))
    chunk = max(1, -(-num_tokens // num_chunks))
    return chunk, limit if num_chunks > 1 else chunk


def _product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a @ b as float32, whatever the factors' precision."""
    if a.dtype == torch.float32:
        return torch.mm(a, b, out=out)
    if a.is_cuda:  # tensor cores sum in float32 and hand that over without rounding
        return torch.mm(a, b, out_dtype=torch.float32, out=out)
    product = a @ b
    return product.float() if out is None else out.copy_(product)


def _add_product(total: Tensor, a: Tensor, b: Tensor, *, first: bool) -> None:
    """total += a @ b, the sum in float32; the first product overwrites what stands there."""
    if a.dtype == torch.float32:
        total.addmm_(a, b, beta=0 if first else 1)
    elif first:
        _product(a, b, out=total)
    else:
        total += _product(a, b)
