"""Rows to batches. The one place that shifts targets, and the one that masks by position.

A batch is its sequences end to end, without padding: GPT-2 pads with the end-of-text token,
and a row that is never padded cannot confuse the two.

What all rows begin with may stand in a batch once. A prompt style begins every row with the same
words, with the Alpaca style a third of all tokens. What the model computes for a token depends
on the tokens before it and on nothing else, so it computes the same for these in every row.
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
    """Sequences end to end (N positions in all): the shared prefix, then what each has of its own.

    `input_ids`, `target_ids` and `positions` are (N,); `weights`, (N,) float32, says for how many
    rows a position stands: one, or all of them in the prefix.
    """

    input_ids: Tensor
    target_ids: Tensor
    positions: Tensor
    weights: Tensor
    lengths: tuple[int, ...]
    """Tokens of each sequence behind the prefix."""
    prefix: int
    """Tokens that all sequences begin with, laid down once; 0 where nothing is shared."""
    num_supervised: int
    """Targets that carry loss, each row's counted."""

    @property
    def num_tokens(self) -> int:
        """Real tokens of all rows; those of the prefix are each row's, though computed once."""
        return len(self.lengths) * self.prefix + sum(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("input_ids", "target_ids", "positions", "weights")
        }
        return replace(self, **moved)


def collate(rows: Sequence[Row], *, share_prefix: bool = False) -> Batch:
    """Rows to one batch, targets shifted by one: position t predicts token t + 1.

    The last token of a row is only a target, so a row of T + 1 tokens fills T positions.

    Args:
        share_prefix: lay down once what all rows begin with. Not where dropout is on, which
            differs by row.
    """
    inputs, targets = [], []
    for row in rows:
        ids = torch.as_tensor(row.token_ids, dtype=torch.long)
        target = ids[1:].clone()
        target[: max(row.prompt_length - 1, 0)] = IGNORE_INDEX
        inputs.append(ids[:-1])
        targets.append(target)
    prefix = _common_length(inputs, targets) if share_prefix and len(rows) > 1 else 0
    supervised = sum(int((target != IGNORE_INDEX).sum()) for target in targets)
    lengths = tuple(len(target) - prefix for target in targets)

    def joined(parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([parts[0][:prefix], *(part[prefix:] for part in parts)])

    weights = torch.ones(prefix + sum(lengths))
    weights[:prefix] = len(rows)
    return Batch(
        input_ids=joined(inputs),
        target_ids=joined(targets),
        positions=joined([torch.arange(len(target)) for target in targets]),
        weights=weights,
        lengths=lengths,
        prefix=prefix,
        num_supervised=supervised,
    )


def _common_length(inputs: Sequence[Tensor], targets: Sequence[Tensor]) -> int:
    """Leading positions whose inputs and targets are the same in every row."""
    shortest = min(len(target) for target in targets)
    columns = torch.stack(
        [torch.stack((i[:shortest], t[:shortest])) for i, t in zip(inputs, targets, strict=True)]
    )  # (B, 2, shortest)
    same = (columns == columns[0]).all(0).all(0)  # (shortest,)
    return int(same.long().cumprod(0).sum())
