"""Rows to batches. The one place that shifts targets, and the one that masks by position.

A batch is its sequences end to end, without padding: GPT-2 pads with the end-of-text token,
and a row that is never padded cannot confuse the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from twolevers.data.row import Row

IGNORE_INDEX = -100
"""Target of a position that carries no loss (the default of PyTorch's cross-entropy)."""


@dataclass(frozen=True)
class Batch:
    """Sequences end to end (N tokens in all).

    `input_ids`, `target_ids` and `positions` are (N,); `lengths` holds the tokens of each
    sequence; `num_supervised` counts the targets that carry loss.
    """

    input_ids: Tensor
    target_ids: Tensor
    positions: Tensor
    lengths: tuple[int, ...]
    num_supervised: int

    @property
    def num_tokens(self) -> int:
        """Real tokens that the model reads (N)."""
        return sum(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        return replace(
            self,
            input_ids=self.input_ids.to(device, non_blocking=True),
            target_ids=self.target_ids.to(device, non_blocking=True),
            positions=self.positions.to(device, non_blocking=True),
        )


def collate(rows: Sequence[Row]) -> Batch:
    """Rows to one batch, targets shifted by one: position t predicts token t + 1.

    The last token of a row is only a target, so a row of T + 1 tokens fills T positions.
    """
    inputs, targets, positions, lengths = [], [], [], []
    for row in rows:
        ids = torch.as_tensor(row.token_ids, dtype=torch.long)
        target = ids[1:].clone()
        target[: max(row.prompt_length - 1, 0)] = IGNORE_INDEX
        inputs.append(ids[:-1])
        targets.append(target)
        positions.append(torch.arange(len(target)))
        lengths.append(len(target))
    target_ids = torch.cat(targets)
    return Batch(
        input_ids=torch.cat(inputs),
        target_ids=target_ids,
        positions=torch.cat(positions),
        lengths=tuple(lengths),
        num_supervised=int((target_ids != IGNORE_INDEX).sum()),
    )
