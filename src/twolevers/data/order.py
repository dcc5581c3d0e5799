"""Which rows make which batch. Depends on the seed and the epoch, and on nothing else."""

from __future__ import annotations

import hashlib

import torch

from twolevers.errors import InputError, Problem


def batch_order(
    num_rows: int, batch_size: int, *, seed: int | None, epoch: int, drop_last: bool
) -> list[list[int]]:
    """The batches of one epoch as row indices.

    Args:
        num_rows: rows of the split.
        batch_size: rows a batch.
        seed: shuffles each epoch anew, the same way in every process; None keeps file order.
        epoch: counted from 0.
        drop_last: leave out a last batch that is short.

    Raises:
        InputError: not one batch comes of it.
    """
    if seed is None:
        order = list(range(num_rows))
    else:
        # A generator of its own: neither dropout nor sampling moves the order of the rows.
        digest = hashlib.sha256(f"{seed} {epoch}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
        order = torch.randperm(num_rows, generator=generator).tolist()
    end = num_rows - num_rows % batch_size if drop_last else num_rows
    if end == 0:
        raise InputError(
            Problem(
                "--batch-size",
                batch_size,
                f"the split has {num_rows} rows, which do not fill one batch"
                if num_rows
                else "the split has no rows",
                f"take at most {num_rows}, or keep the short batch with --no-drop-last"
                if num_rows
                else "give more data",
            )
        )
    return [order[start : min(start + batch_size, end)] for start in range(0, end, batch_size)]
