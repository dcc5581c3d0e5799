"""Who sees whom: the attention functions that `GPT2.forward` is given.

Letters as in `gpt2.py`; P tokens of a shared prefix, T tokens of one tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from twolevers.models.gpt2 import Attend

TILE_TOKENS = {"cpu": 128}
"""Sequences that lie side by side are attended together, up to so many tokens. Each then looks at
its neighbours in vain (they are masked), which costs less than a call for each."""
_TILE_TOKENS_ELSEWHERE = 1024
_FEW_TOKENS = 256
"""Up to here a CPU is faster with two plain products than with fused attention."""


def causal_within(lengths: Sequence[int], prefix: int = 0) -> Attend:
    """Each sequence sees the prefix and itself, each token itself and what stands before it.

    Args:
        lengths: tokens of each sequence, in the order in which they lie end to end.
        prefix: P tokens that lie before them all and that every sequence begins with. The sum of
            all is N.

    Returns:
        An `attend` for training and scoring. Time and memory grow with the tokens: a long
        sequence costs its own square, never that of its neighbours.
    """
    tiles: list[_Tile] = []

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not tiles:  # which device and precision is known here only; all layers share the masks
            tiles.extend(_tiles(lengths, prefix, q))
        sizes = [tile.num_tokens for tile in tiles]
        # (N, H, D) -> (H, N, D), then one piece a tile
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        keys, values = list(k.split(sizes, dim=1)), list(v.split(sizes, dim=1))
        for i in range(1, len(tiles) if prefix else 0):
            keys[i] = torch.cat((keys[0][:, :prefix], keys[i]), dim=1)
            values[i] = torch.cat((values[0][:, :prefix], values[i]), dim=1)
        parts = [
            tile.attend(*qkv).transpose(0, 1)  # (H, T, D) -> (T, H, D)
            for tile, *qkv in zip(tiles, q.split(sizes, dim=1), keys, values, strict=True)
        ]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    return attend


def plain_causal_within(lengths: Sequence[int]) -> Attend:
    """The same, one sequence after the other as the formula stands: the test of the fast one."""

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = []
        for own in zip(*(t.split(list(lengths)) for t in (q, k, v)), strict=True):
            q_i, k_i, v_i = (t.transpose(0, 1) for t in own)  # (T, H, D) -> (H, T, D)
            scores = q_i @ k_i.transpose(1, 2) / math.sqrt(q.shape[-1])  # (H, T, T)
            later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
            weights = scores.masked_fill(later, -math.inf).softmax(-1)
            parts.append((weights @ v_i).transpose(0, 1))
        return torch.cat(parts)

    return attend


@dataclass(frozen=True)
class _Tile:
    """Neighbours that are attended in one go."""

    num_tokens: int
    mask: Tensor | None
    """(T, T) or, behind the prefix, (T, P + T): zero where a token may look, else minus infinity.
    None: plainly causal."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(H, T, D) queries, keys and values to (H, T, D) attended values."""
        if not _is_small(self.num_tokens, q):
            return F.scaled_dot_product_attention(
                q[None], k[None], v[None], attn_mask=self.mask, is_causal=self.mask is None
            )[0]
        scale = 1 / math.sqrt(q.shape[-1])
        assert self.mask is not None
        scores = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=scale)  # (H, T, P + T)
        return torch.bmm(scores.softmax(-1), v)


def _tiles(lengths: Sequence[int], prefix: int, like: Tensor) -> Iterator[_Tile]:
    limit = TILE_TOKENS.get(like.device.type, _TILE_TOKENS_ELSEWHERE)
    groups: list[list[int]] = [[]]
    for length in lengths:
        if groups[-1] and sum(groups[-1]) + length > limit:
            groups.append([])
        groups[-1].append(length)
    for i, group in enumerate(groups):
        first = i == 0  # holds the prefix itself, whose tokens count as queries there
        num_tokens = sum(group) + (prefix if first else 0)
        is_causal = len(group) == 1 and (first or not prefix)
        if is_causal and not _is_small(num_tokens, like):
            yield _Tile(num_tokens, None)
            continue
        # Number 0 is the prefix, which all may see.
        sizes = torch.tensor([prefix, *group])
        owners = torch.arange(len(sizes)).repeat_interleave(sizes)
        allowed = ((owners[:, None] == owners) | (owners == 0)).tril()
        allowed = allowed if first else allowed[prefix:]
        mask = torch.zeros(allowed.shape, dtype=like.dtype).masked_fill_(~allowed, -math.inf)
        yield _Tile(num_tokens, mask.to(like.device))


def _is_small(num_tokens: int, like: Tensor) -> bool:
    return like.is_cpu and num_tokens <= _FEW_TOKENS
