"""One row of tokens. Apart from batches, so that what makes rows need not load PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One tokenised entry: `token_ids` is prompt, response and end of text, already cut to
    `max_length`; the first `prompt_length` of them carry no loss (0: loss over everything)."""

    token_ids: Sequence[int]
    prompt_length: int = 0
