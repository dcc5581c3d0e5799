"""One gradient for the weight that is used twice: as embedding and as output layer.

Left to autograd, the look-up would make a gradient of the whole vocabulary's size, zero but for
the few rows looked up, and add it to the output layer's: three passes over 154 MB for
gpt2-small. Here the output layer's gradient waits until the look-up adds its rows to it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class TiedGradient:
    """Where the output layer leaves its gradient (V, C) for the look-up of the same forward pass.

    The look-up's backward comes after the output layer's, whose result it starts from.
    """

    def __init__(self) -> None:
        self.of_output_layer: Tensor | None = None

    def look_up(self, input_ids: Tensor, weight: Tensor) -> Tensor:
        """(N,) token ids to (N, C) rows of `weight` (V, C)."""
        embedded: Tensor = _LookUp.apply(input_ids, weight, self)
        return embedded


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input_ids: Tensor, weight: Tensor, tied: TiedGradient) -> Tensor:
        ctx.save_for_backward(input_ids)
        ctx.tied = tied
        return weight[input_ids]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        (input_ids,) = ctx.saved_tensors
        weight_grad, ctx.tied.of_output_layer = ctx.tied.of_output_layer, None
        if weight_grad is None:
            raise RuntimeError("the look-up's gradient was asked for without the output layer's")
        weight_grad.index_add_(0, input_ids, gradient.to(weight_grad.dtype))
        return None, weight_grad, None
