"""AdamW as chapter 7 uses it, and its moments as plain named tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from twolevers.models.gpt2 import GPT2
from twolevers.options import TrainingOptions

MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(model: GPT2, options: TrainingOptions) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019) with weight decay on all parameters, as the chapter.

    Fused: one pass over parameters, gradients and moments, the same bits every time. The rate
    is set before each step, from the schedule.
    """
    return torch.optim.AdamW(
        model.parameters(),
        lr=options.learning_rate or 0.0,
        weight_decay=options.weight_decay,
        fused=True,
    )


def trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The parameters that training changes, by name."""
    return [(name, one) for name, one in model.named_parameters() if one.requires_grad]


def moments(model: nn.Module, optimizer: torch.optim.AdamW) -> tuple[int, dict[str, Tensor]]:
    """Updates done, and the moments as `exp_avg.NAME` and `exp_avg_sq.NAME`."""
    state = {name: optimizer.state[parameter] for name, parameter in trained(model)}
    updates = max((int(entry["step"].item()) for entry in state.values() if entry), default=0)
    return updates, {
        f"{moment}.{name}": entry[moment]
        for name, entry in state.items()
        for moment in MOMENTS
        if entry
    }


@torch.no_grad()
def restore_moments(
    model: nn.Module, optimizer: torch.optim.AdamW, updates: int, tensors: dict[str, Tensor]
) -> None:
    """Puts back what `moments` gave; no moments where no update was done yet.

    Raises:
        KeyError: a parameter has no moments.
        RuntimeError: they have another shape than the parameter.
    """
    if updates == 0:
        return
    for name, parameter in trained(model):
        optimizer.state[parameter] = {
            "step": torch.tensor(float(updates), device=parameter.device),
            **{
                moment: torch.empty_like(parameter).copy_(tensors[f"{moment}.{name}"])
                for moment in MOMENTS
            },
        }


def gradients(model: GPT2) -> list[Tensor]:
    """The gradients there are, in the order of the parameters."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of all of them together, a float32 scalar.

    Row by row, which PyTorch spreads over the threads. Its own sum over a whole matrix is taken
    by one thread, and in float32 so long a sum lost 1 part in 1,000.
    """
    squares = [torch.linalg.vector_norm(g, dim=-1).square_().sum() for g in gradients]
    return torch.stack(squares).sum().sqrt()
