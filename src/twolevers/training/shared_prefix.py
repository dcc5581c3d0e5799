"""What all rows of a batch begin with needs one output layer, not one a row.

A prompt style begins every row with the same words: with the Alpaca style about a third of all
tokens. A token's hidden state depends on what stands before it and on nothing else, so the loss
of those positions is the same in every row: the first row's counts for all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from twolevers.data.batch import IGNORE_INDEX, Batch


def shared_prefix(batch: Batch) -> int:
    """Leading positions whose inputs and targets are the same in every row; 0 for one row."""
    if len(batch.lengths) < 2:
        return 0
    device = batch.input_ids.device
    lengths = torch.tensor(batch.lengths, device=device)
    starts = lengths.cumsum(0) - lengths  # (B,)
    index = starts[:, None] + torch.arange(min(batch.lengths), device=device)  # (B, shortest)
    inputs, targets = batch.input_ids[index], batch.target_ids[index]
    same = (inputs == inputs[0]).all(0) & (targets == targets[0]).all(0)  # (shortest,)
    return int(same.long().cumprod(0).sum())


def weighted_positions(batch: Batch, *, share: bool) -> tuple[Tensor, Tensor]:
    """The positions whose loss has to be computed, and how often each counts.

    Args:
        share: a shared prefix is computed once. Not with dropout, which differs by row.

    Returns:
        (K,) indices into the batch's N tokens, supervised ones alone; (K,) float32 counts, whose
        sum is `batch.num_supervised`.
    """
    supervised = batch.target_ids != IGNORE_INDEX  # (N,)
    counts = torch.ones_like(batch.target_ids, dtype=torch.float32)
    if share and (prefix := shared_prefix(batch)):
        first = batch.lengths[0]
        counts[:prefix] = len(batch.lengths)
        supervised[first:] &= batch.positions[first:] >= prefix
    positions = supervised.nonzero().squeeze(1)
    return positions, counts[positions]
