"""Low-rank adaptation (Hu et al. 2021): a frozen layer and a trained update of low rank."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from twolevers.models.gpt2 import GPT2


class LoRALinear(nn.Module):
    """`linear(x) + alpha / rank * x Aᵀ Bᵀ`: x (N, in), A (rank, in), B (out, rank).

    A is drawn as a linear layer's weights are and B is zero, so that it begins as `linear` itself.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), alpha / rank
        self.a = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        self.b = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        update: Tensor = F.linear(F.linear(x, self.a), self.b)
        return self.linear(x) + self.scale * update

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The layer with the update added to its weights; the same function, and no slower."""
        self.linear.weight += self.scale * (self.b @ self.a)
        return self.linear


def add_lora(model: GPT2, rank: int, alpha: float) -> None:
    """Give every linear layer of the blocks an update; all else is frozen."""
    model.requires_grad_(False)
    for block in model.h:
        for part in block.children():
            for name, layer in list(part.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(part, name, LoRALinear(layer, rank, alpha))


def merge_lora(model: GPT2) -> None:
    """Plain weights again, the updates in them; leaves a model without updates as it is."""
    for block in model.h:
        for part in block.children():
            for name, layer in list(part.named_children()):
                if isinstance(layer, LoRALinear):
                    setattr(part, name, layer.merged())
