"""GPT-2, readable from top to bottom.

The architecture of Radford et al., "Language Models are Unsupervised Multitask Learners"
(2019), as chapter 4 of *Build a Large Language Model (From Scratch)* builds it: learned
positions, pre-norm blocks, GELU with the tanh approximation, output tied to the embedding.

Dimension letters, here and everywhere in the core:

    N  tokens of a batch, all sequences end to end, no padding
    C  embedding dimension (`emb_dim`)
    H  attention heads (`num_heads`)
    D  dimension of one head (C = H * D)
    V  vocabulary

Everything but attention treats each token alone, so a batch is one flat row of N tokens.
Which tokens see which is decided by the `attend` function that the caller passes in (see
`attention.py`): whole sequences side by side in training, a key-value cache in generation.

Parameter names follow the published checkpoints (`wte`, `c_attn`, …), so that weights are
translated in one place only (`weights.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from twolevers.models.catalog import GPT2Config

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""`attend(layer, q, k, v)`: three tensors (N, H, D) to the attended values (N, H, D)."""


class Attention(nn.Module):
    """Masked multi-head self-attention; the mask itself belongs to `attend`."""

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        self.layer, self.num_heads, self.head_dim = layer, config.num_heads, config.head_dim
        self.c_attn = nn.Linear(config.emb_dim, 3 * config.emb_dim)
        self.c_proj = nn.Linear(config.emb_dim, config.emb_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        qkv = self.c_attn(x).view(-1, 3, self.num_heads, self.head_dim)  # (N, 3C) -> (N, 3, H, D)
        q, k, v = qkv.unbind(dim=1)  # each (N, H, D)
        attended = attend(self.layer, q, k, v).flatten(1)  # (N, H, D) -> (N, C)
        return self.dropout(self.c_proj(attended))


class FeedForward(nn.Module):
    """Two linear layers around a GELU, four times as wide inside."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.emb_dim, 4 * config.emb_dim)
        self.c_proj = nn.Linear(4 * config.emb_dim, config.emb_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    """One transformer block: attention, then the feed-forward network, each on a residual."""

    def __init__(self, config: GPT2Config, layer: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.emb_dim, eps=1e-5)
        self.attn = Attention(config, layer)
        self.ln_2 = nn.LayerNorm(config.emb_dim, eps=1e-5)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        x = x + self.attn(self.ln_1(x), attend)  # (N, C)
        return x + self.mlp(self.ln_2(x))  # (N, C)


class GPT2(nn.Module):
    """GPT-2 without padding: hidden states from `forward`, logits from `logits`.

    The two are apart because the loss never needs the logits of all positions at once, and
    generation needs those of the last position only.
    """

    def __init__(self, config: GPT2Config, *, gradient_checkpointing: bool = False) -> None:
        super().__init__()
        self.config = config
        self.gradient_checkpointing = gradient_checkpointing
        self.wte = nn.Embedding(config.vocab_size, config.emb_dim)
        self.wpe = nn.Embedding(config.context_length, config.emb_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(Block(config, layer) for layer in range(config.num_layers))
        self.ln_f = nn.LayerNorm(config.emb_dim, eps=1e-5)

    def forward(self, input_ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last layer norm.

        Args:
            input_ids: (N,) token ids, sequences end to end.
            positions: (N,) each token's position in its own sequence, from 0.
            attend: which tokens see which; see `attention.py`.

        Returns:
            (N, C) hidden states.
        """
        return self.hidden(self.wte(input_ids), positions, attend)

    def hidden(self, embedded: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """As `forward`, from tokens that are looked up already: (N, C) to (N, C)."""
        x = self.dropout(embedded + self.wpe(positions))  # (N, C)
        for block in self.h:
            if self.gradient_checkpointing and self.training and torch.is_grad_enabled():
                x = checkpoint(block, x, attend, use_reentrant=False)
            else:
                x = block(x, attend)
        return self.ln_f(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, C) hidden states to (…, V) logits; the output layer is the embedding itself."""
        return F.linear(hidden, self.wte.weight)

    @torch.no_grad()
    def initialise(self, seed: int) -> GPT2:
        """Random weights as GPT-2's: normal, 0.02; residual projections scaled by 1/sqrt(2L)."""
        generator = torch.Generator().manual_seed(seed)
        residual_std = 0.02 / math.sqrt(2 * self.config.num_layers)
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                parameter.zero_()
            elif ".ln_" in f".{name}":
                parameter.fill_(1.0)
            else:
                std = residual_std if name.endswith("c_proj.weight") else 0.02
                parameter.normal_(0.0, std, generator=generator)
        return self

    def num_parameters(self) -> int:
        """Parameters, the tied output layer counted once (the published figures)."""
        return sum(parameter.numel() for parameter in self.parameters())
