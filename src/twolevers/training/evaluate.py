"""The batches that a loss is measured on, always the same rows in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twolevers.data.batch import Batch, Row, collate

JOINED_TOKENS = 2048
"""A batch is closed when it has this many tokens. The loss is a sum over tokens, so rows may
be grouped at will, and few large batches are faster than many small ones."""


def joined_batches(split: Sequence[Row], indices: Iterable[int]) -> Iterator[Batch]:
    """The rows at `indices`, in that order, in batches of about `JOINED_TOKENS` tokens."""
    rows: list[Row] = []
    tokens = 0
    for index in indices:
        rows.append(split[index])
        tokens += len(rows[-1].token_ids)
        if tokens >= JOINED_TOKENS:
            yield collate(rows, share_prefix=True)
            rows, tokens = [], 0
    if rows:
        yield collate(rows, share_prefix=True)


def first_batches(split: Sequence[Row], batch_size: int, count: int) -> list[Batch]:
    """The rows of the split's first `count` batches in file order, all of them if it has fewer.

    Chapter 7 measures its training loss on the first batches of a shuffled loader, other rows
    each time; here the rows stay, so that the curve moves because the model does.
    """
    return list(joined_batches(split, range(min(len(split), batch_size * count))))
