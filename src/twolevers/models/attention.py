"""Who sees whom: the attention functions that `GPT2.forward` is given.

Letters as in `gpt2.py`; B sequences, T the longest of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from twolevers.models.gpt2 import Attend


def causal_within(lengths: Sequence[int]) -> Attend:
    """Each sequence sees itself, each token itself and what stands before it.

    Args:
        lengths: tokens of each sequence, in the order in which they lie end to end; sum N.

    Returns:
        An `attend` for training and scoring. One call of PyTorch's fused attention a
        sequence: a long sequence costs its own square, never that of its neighbours.
    """
    sizes = list(lengths)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = []
        for q_i, k_i, v_i in zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True):
            # (T, H, D) -> (1, H, T, D): the layout that scaled_dot_product_attention takes
            q_i, k_i, v_i = (t.transpose(0, 1).unsqueeze(0) for t in (q_i, k_i, v_i))
            out = F.scaled_dot_product_attention(q_i, k_i, v_i, is_causal=True)
            parts.append(out.squeeze(0).transpose(0, 1))  # (1, H, T, D) -> (T, H, D)
        return torch.cat(parts)

    return attend
