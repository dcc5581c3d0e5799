"""Where a short pretraining starts: weights that can already look back and copy.

Everything asked of gpt2-nano copies: the answer is made of the words of the question. From
plain random weights a small model needs millions of tokens before its first head looks at "the
token before" and the next one finds "what followed this token last time" (Olsson et al. 2022,
"In-context Learning and Induction Heads"). Tried: after 1.8 million tokens copying had not
begun. So the start has structure, as in Trockman and Kolter (2023, "Mimetic Initialization of
Self-Attention Layers"), and training goes on from there:

- positions are waves, so that one step back is one rotation for all positions;
- heads of the first layer look one, two and three tokens back;
- heads further up compare tokens with tokens, some of them with the token before;
- what a head finds is added to the stream in the token's own directions, ready to be said.
"""

from __future__ import annotations

import torch
from torch import Tensor

from twolevers.models.gpt2 import GPT2, Block

_EMBEDDING_STD = 0.1
_HIGHEST, _LOWEST = 2.5, 0.002  # of the waves, in radians a token
_BACK = (1, 1, 2, 3)  # how far the heads of the first layer look back
_OUTPUT = 0.12  # what a head adds, against the stream's own size


@torch.no_grad()
def prepare_to_copy(model: GPT2, seed: int) -> None:
    """Give `model`, freshly initialised, positions that are waves and heads that can copy."""
    config = model.config
    c, d = config.emb_dim, config.head_dim
    generator = torch.Generator().manual_seed(seed + 2)
    frequencies = _HIGHEST * (_LOWEST / _HIGHEST) ** (torch.arange(c // 2) / (c // 2))
    angles = torch.arange(config.context_length)[:, None] * frequencies  # (P, C / 2)
    model.wpe.weight.copy_(torch.cat((angles.sin(), angles.cos()), dim=1) * _EMBEDDING_STD)
    model.wte.weight.mul_(_EMBEDDING_STD / 0.02)

    read = _orthogonal(c, generator).view(config.num_heads, d, c)  # what each head carries
    write = _orthogonal(c, generator).view(config.num_heads, d, c)  # where layer 0 puts it
    for layer, block in enumerate(model.h):
        assert isinstance(block, Block)
        query, key, value = block.attn.c_attn.weight.view(3, config.num_heads, d, c)
        output = block.attn.c_proj.weight.view(c, config.num_heads, d)
        own = _orthogonal(c, generator).view(config.num_heads, d, c)
        for head in range(config.num_heads):
            if layer == 0:
                query[head], key[head] = _look_back(_BACK[head % 4], frequencies, d, c)
                value[head] = read[head]
                output[:, head] = write[head].T * _OUTPUT
                continue
            if layer % 2 and head < config.num_heads // 2:
                query[head], key[head] = 1.2 * read[head], 1.2 * write[head]
            else:
                query[head] = key[head] = 0.6 * own[head]
            value[head] = own[head]
            output[:, head] = own[head].T * _OUTPUT


def _orthogonal(size: int, generator: torch.Generator) -> Tensor:
    """A random rotation."""
    return torch.linalg.qr(torch.randn(size, size, generator=generator))[0]


def _look_back(back: int, frequencies: Tensor, d: int, c: int) -> tuple[Tensor, Tensor]:
    """Query and key weights (D, C) of a head that looks `back` tokens back.

    The query turns the highest D / 2 waves by `back` tokens; it then matches the key there:
    sin(w (t - b)) = sin(wt) cos(wb) - cos(wt) sin(wb), and likewise for the cosine.
    """
    n = d // 2
    turn = frequencies[:n] * back
    waves = torch.arange(n)
    query, key = torch.zeros(d, c), torch.zeros(d, c)
    key[waves, waves] = key[waves + n, waves + c // 2] = 2.0
    query[waves, waves] = query[waves + n, waves + c // 2] = 2.0 * turn.cos()
    query[waves, waves + c // 2] = -2.0 * turn.sin()
    query[waves + n, waves] = 2.0 * turn.sin()
    return query, key
