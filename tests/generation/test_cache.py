"""The cache as a server will use it: sequences come and go while others go on."""

from __future__ import annotations

import pytest
import torch

from twolevers.generation.cache import KeyValueCache, decode_step, prefill
from twolevers.models.attention import causal_within
from twolevers.models.gpt2 import GPT2


def next_logits(model: GPT2, sequence: list[int]) -> torch.Tensor:
    """(V,) logits after a whole sequence, read anew."""
    hidden = model(
        torch.tensor(sequence), torch.arange(len(sequence)), causal_within([len(sequence)])
    )
    return model.logits(hidden[-1])


@torch.no_grad()
def test_sequences_enter_and_leave_in_any_order(model: GPT2) -> None:
    cache = KeyValueCache(model.config, 3)
    rows = [[5, 6, 7], [8] * 20]
    logits = prefill(model, cache, rows)
    for turn in range(24):
        for row, sequence in enumerate(rows):
            torch.testing.assert_close(logits[row], next_logits(model, sequence))
        if turn in (3, 9, 15):  # one leaves; the last row takes its place
            cache.remove(turn % len(rows))
            rows[turn % len(rows)] = rows[-1]
            rows.pop()
        tokens = [(turn * 7 + row) % 50 for row in range(len(rows))]
        for sequence, token in zip(rows, tokens, strict=True):
            sequence.append(token)
        assert cache.lengths == [len(sequence) - 1 for sequence in rows]
        logits = decode_step(model, cache, torch.tensor(tokens))
        if turn in (4, 11, 12):  # one enters
            new = [[turn] * (turn * 4)]
            rows += new
            logits = torch.cat([logits, prefill(model, cache, new)])


@torch.no_grad()
@pytest.mark.parametrize(
    "rows",
    [
        [[5, 6, 7, 1], [5, 6, 7, 2, 3], [5, 6, 7]],
        [[5, 6, 7], [5, 6, 7], [5, 6, 7]],
        [[1, 2], [3, 4]],
        [[9, 1], [9, 1, 4, 4]],
    ],
)
def test_what_prompts_begin_with_is_read_once_and_known_to_each(model: GPT2, rows) -> None:
    cache = KeyValueCache(model.config, 4)
    first = [[30, 31, 32]]
    prefill(model, cache, first)
    logits = prefill(model, cache, rows)
    for row, sequence in enumerate(rows):
        torch.testing.assert_close(logits[row], next_logits(model, sequence))
    everyone = [*first, *rows]
    tokens = list(range(11, 11 + len(everyone)))
    logits = decode_step(model, cache, torch.tensor(tokens))
    for row, (sequence, token) in enumerate(zip(everyone, tokens, strict=True)):
        torch.testing.assert_close(logits[row], next_logits(model, [*sequence, token]))


def test_a_full_cache_takes_no_more(model: GPT2) -> None:
    cache = KeyValueCache(model.config, 2)
    with pytest.raises(ValueError, match="at most 2 sequences"):
        prefill(model, cache, [[1], [2], [3]])
    assert len(cache) == 0
