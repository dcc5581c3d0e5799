"""From logits to the next token: greedy, or drawn by temperature, top-k and top-p.

Meaning and order are those of `transformers`: temperature, then top-k, then top-p, at least one
token kept. Tokens exactly as likely as the last one kept are kept too.

What is drawn depends on the seed, the prompt and how often this very prompt stood earlier in the
list, never on the other prompts or on how they were grouped: a prompt gets the answer that it
gets alone, and the same prompt given three times gets three draws.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from twolevers.errors import TwoleversError
from twolevers.options import GenerationOptions

LIKELIEST = 512
"""Tokens looked at first for top-p; only where they do not hold enough are all 50,257 sorted."""


def greedy(logits: Tensor) -> Tensor:
    """(B, V) logits to the (B,) likeliest tokens.

    Raises:
        TwoleversError: the logits are no numbers, so no token is the right one.
    """
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        # numpy's argmax is vectorised, PyTorch's is not: a quarter of the time over 50,257 tokens
        token_ids = torch.from_numpy(logits.numpy(force=True).argmax(axis=-1))
    else:
        token_ids = logits.argmax(dim=-1)
    best = logits.gather(-1, token_ids[:, None])
    if not torch.isfinite(best).all():
        raise TwoleversError(
            "generation: the model's logits are no finite numbers; its weights are damaged or "
            "its precision is too narrow: try --precision float32, or another checkpoint"
        )
    return token_ids


def filtered_probabilities(logits: Tensor, options: GenerationOptions) -> Tensor:
    """(B, V) logits to the (B, V) probabilities drawn from; 0 where a token was filtered out."""
    # Subtracting the maximum first keeps a tiny temperature from overflowing to infinity.
    logits = logits.float() - logits.float().amax(dim=-1, keepdim=True)
    logits = logits / max(options.temperature, 1e-20)
    vocab_size = logits.shape[-1]
    if options.top_k is not None and options.top_k < vocab_size:
        least = logits.topk(options.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    probabilities = logits.softmax(dim=-1)
    if options.top_p is None or options.top_p >= 1:
        return probabilities
    for count in (min(LIKELIEST, vocab_size), vocab_size):
        likeliest = probabilities.topk(count).values  # (B, count), falling
        before = likeliest.cumsum(dim=-1) - likeliest  # mass of the likelier ones
        if count == vocab_size or bool((before[:, -1] >= options.top_p).all()):
            break
    kept = (before < options.top_p).sum(dim=-1, keepdim=True).clamp(min=1)
    least = likeliest.gather(-1, kept - 1)
    probabilities = probabilities.masked_fill(probabilities < least, 0.0)
    return probabilities / probabilities.sum(dim=-1, keepdim=True)


def draw(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """(B, V) probabilities and (B,) numbers in [0, 1) to (B,) tokens, by the inverse of the
    cumulative distribution in order of token id: one number a token is all the chance needed."""
    exact = torch.float32 if probabilities.device.type == "mps" else torch.float64
    cumulative = probabilities.to(exact).cumsum(dim=-1)
    target = uniform.to(cumulative)[:, None] * cumulative[:, -1:]
    token_ids = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
    return token_ids.clamp(max=probabilities.shape[-1] - 1)


class Chance:
    """The random numbers of one prompt, one for each token it may get.

    Args:
        earlier: how often this very prompt stood before it.
    """

    def __init__(self, prompt: Sequence[int], seed: int, earlier: int = 0) -> None:
        digest = hashlib.sha256(repr((seed, earlier, tuple(prompt))).encode("ascii")).digest()
        self._generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def next(self) -> Tensor:
        """A number in [0, 1) for the next token."""
        return torch.rand((), generator=self._generator)


def chances(prompts: Sequence[Sequence[int]], seed: int) -> list[Chance]:
    """The random numbers of every prompt."""
    seen: Counter[tuple[int, ...]] = Counter()
    made = []
    for prompt in map(tuple, prompts):
        made.append(Chance(prompt, seed, seen[prompt]))
        seen[prompt] += 1
    return made
