"""Attention in tiles against one sequence after the other."""

from __future__ import annotations

import pytest
import torch

from twolevers.models import attention
from twolevers.models.attention import causal_within, plain_causal_within

HEADS, HEAD_DIM = 3, 8


def qkv(num_tokens: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, num_tokens, HEADS, HEAD_DIM, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(
    "lengths",
    [
        [1],
        [5, 3, 9],
        [128, 1, 127, 2],
        [300],
        [4, 300, 7, 5],
        [200, 200],
        [0, 4, 0, 3],
    ],
)
@pytest.mark.parametrize("small", [256, 2], ids=["products", "fused"])
def test_tiles_give_what_sequences_alone_give(lengths, small, monkeypatch):
    monkeypatch.setattr(attention, "_FEW_TOKENS", small)
    ours, plain = qkv(sum(lengths)).requires_grad_(), qkv(sum(lengths)).requires_grad_()
    found = causal_within(lengths)(0, *ours)
    expected = plain_causal_within(lengths)(0, *plain)
    torch.testing.assert_close(found, expected)
    weights = torch.arange(found.numel(), dtype=torch.float64).view_as(found).sin()
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)


@pytest.mark.parametrize("lengths", [[5, 3, 9], [100, 60, 90, 1], [300, 4], [0, 0], [0, 7]])
@pytest.mark.parametrize("small", [256, 2], ids=["products", "fused"])
def test_a_shared_prefix_is_seen_by_all(lengths, small, monkeypatch):
    monkeypatch.setattr(attention, "_FEW_TOKENS", small)
    prefix = 6
    shared = qkv(prefix + sum(lengths))
    first, own = shared[:, :prefix], shared[:, prefix:].split(lengths, dim=1)
    repeated = torch.cat([torch.cat((first, part), dim=1) for part in own], dim=1)
    expected = plain_causal_within([prefix + length for length in lengths])(0, *repeated)
    found = causal_within(lengths, prefix)(0, *shared)
    torch.testing.assert_close(found[:prefix], expected[:prefix])
    torch.testing.assert_close(
        found[prefix:],
        torch.cat([p[prefix:] for p in expected.split([prefix + n for n in lengths])]),
    )


def test_a_long_sequence_makes_no_square_with_its_neighbours():
    """Masks are the size of what is attended together: the long one alone has none."""
    tiles = list(attention._tiles([60, 1000, 60, 60], 0, torch.zeros(1)))
    assert [tile.num_tokens for tile in tiles] == [60, 1000, 120]
    assert tiles[1].mask is None
    behind_prefix = list(attention._tiles([60, 1000, 60], 20, torch.zeros(1)))
    assert [tuple(t.mask.shape) for t in behind_prefix] == [(80, 80), (1000, 1020), (60, 80)]
