"""The key-value cache: what every layer has computed of the sequences being continued.

Letters as in `models/gpt2.py`; B rows of the cache (one sequence each), T positions it has room
for. Per layer keys and values are (B, H, T, D): one head of one sequence lies in one piece, as
attention reads it. (B, T, H, D) was tried and is slower to read.

Rows in use are always the first ones. A sequence that ended leaves by having the last row
copied over its own, so the model never computes rows that nobody waits for, and no step copies
the cache. Room in T grows by pieces and in B by doubling: short answers never pay for the longest
allowed, nor few sequences for the most.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch import Tensor
from torch.nn import functional as F

from twolevers.models.attention import causal_within
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2, Attend

GROWTH = 64
"""Positions of room added at a time."""


class KeyValueCache:
    """Keys and values of up to `max_sequences` sequences, of unequal length.

    Keys take the type that the model computes them in (bfloat16 under autocast), which is
    known at the first write only. On a CPU they are float32: attention of a single token, which
    is no product of matrices, is two to six times as slow there in bfloat16 (measured).
    """

    def __init__(
        self, config: GPT2Config, max_sequences: int, device: torch.device | str = "cpu"
    ) -> None:
        self.max_sequences = max_sequences
        self.lengths: list[int] = []
        """Positions filled, one number a row in use."""
        self._context_length = config.context_length
        self._device = torch.device(device)
        self._rows = self._room = 0  # sequences and positions that there is memory for
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * config.num_layers

    def __len__(self) -> int:
        """Rows in use."""
        return len(self.lengths)

    def add(self, lengths: Sequence[int], prefix: int = 0) -> Attend:
        """Takes in new sequences behind those in use: the `attend` for their prompts, end to end.

        Args:
            lengths: tokens of each prompt behind the prefix.
            prefix: tokens that all of them begin with, laid down once before them.
        """
        first, new = len(self), len(lengths)
        if first + new > self.max_sequences:
            raise ValueError(f"the cache holds at most {self.max_sequences} sequences")
        counts = torch.tensor(lengths, device=self._device)
        rows = torch.arange(first, first + new, device=self._device)
        own_rows = rows.repeat_interleave(counts)  # (N - P,) row of each token
        own_places = prompt_positions(lengths, prefix, self._device)[prefix:]
        within = causal_within(lengths, prefix)
        self.lengths.extend(prefix + length for length in lengths)
        self._make_room(prefix + max(lengths, default=0))

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            kept = self._write(layer, own_rows, own_places, k[prefix:], v[prefix:])
            for tensor, fresh in zip(kept, (k, v), strict=True):
                tensor[first : first + new, :, :prefix] = fresh[:prefix].transpose(0, 1)
            return within(layer, q, k, v)

        return attend

    def step(self) -> Attend:
        """Lengthens every row in use by one token: the `attend` for these tokens, one a row."""
        n = len(self)
        places = torch.tensor(self.lengths, device=self._device)  # (B,)
        rows = torch.arange(n, device=self._device)
        self.lengths = [length + 1 for length in self.lengths]
        longest = max(self.lengths)
        self._make_room(longest)
        mask = None
        if min(self.lengths) < longest:  # one row alone needs no mask
            seen = torch.arange(longest, device=self._device) <= places[:, None]  # (B, T)
            mask = seen[:, None, None]  # (B, 1, 1, T)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._write(layer, rows, places, k, v)
            with torch.autocast(q.device.type, enabled=False):  # as the keys are kept
                out = F.scaled_dot_product_attention(
                    q.to(keys.dtype).unsqueeze(2),  # (B, H, D) -> (B, H, 1, D)
                    keys[:n, :, :longest],
                    values[:n, :, :longest],
                    attn_mask=mask,
                )
            return out.squeeze(2).to(q.dtype)

        return attend

    def remove(self, row: int) -> None:
        """The sequence in `row` has ended; the last row in use takes its place."""
        last = len(self) - 1
        if row != last:
            filled = self.lengths[last]
            for layer in self._layers:
                for tensor in layer or ():
                    tensor[row, :, :filled] = tensor[last, :, :filled]
            self.lengths[row] = filled
        self.lengths.pop()

    def _write(
        self, layer: int, rows: Tensor, places: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Puts k and v (N, H, D) where each token belongs; the layer's whole keys and values."""
        kept = self._layers[layer]
        if kept is None:
            shape = (self._rows, k.shape[1], self._room, k.shape[2])  # (B, H, T, D)
            dtype = torch.float32 if k.is_cpu else k.dtype
            keys, values = (k.new_zeros(shape, dtype=dtype) for _ in range(2))
            kept = self._layers[layer] = keys, values
        for tensor, new in zip(kept, (k, v), strict=True):
            tensor[rows, :, places] = new.to(tensor.dtype)
        return kept

    def _make_room(self, longest: int) -> None:
        """For every row in use, at least `longest` positions. Unfilled room is zero: attention
        multiplies it by zero, and whatever memory held before (a NaN) would survive that."""
        rows, positions = self._rows, self._room
        if len(self) > rows:
            rows = min(max(len(self), 2 * rows), self.max_sequences)
        if longest > positions:
            positions = min(-(-longest // GROWTH) * GROWTH, self._context_length)
        more = (0, 0, 0, positions - self._room, 0, 0, 0, rows - self._rows)
        if not any(more):
            return
        self._rows, self._room = rows, positions
        for index, layer in enumerate(self._layers):
            if layer is not None:
                keys, values = (F.pad(tensor, more) for tensor in layer)
                self._layers[index] = keys, values


def prompt_positions(
    lengths: Sequence[int], prefix: int, device: torch.device | str = "cpu"
) -> Tensor:
    """(N,) the position of each token in its own sequence: the prefix, then sequences end to end,
    which go on where the prefix ends."""
    own = [torch.arange(prefix, prefix + length, device=device) for length in lengths]
    return torch.cat([torch.arange(prefix, device=device), *own])


def prefill(model: GPT2, cache: KeyValueCache, prompts: Sequence[Sequence[int]]) -> Tensor:
    """Reads new prompts into the cache, what they all begin with only once.

    Returns:
        (len(prompts), V) logits for the first new token of each.
    """
    device = model.wte.weight.device
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False))
    # The last token of each is read for itself: its logits are what is asked for.
    prefix = min(sum(1 for _ in alike), min(map(len, prompts)) - 1) if len(prompts) > 1 else 0
    lengths = [len(prompt) - prefix for prompt in prompts]
    own = [token for prompt in prompts for token in prompt[prefix:]]
    input_ids = torch.tensor([*prompts[0][:prefix], *own], device=device)
    positions = prompt_positions(lengths, prefix, device)
    hidden = model(input_ids, positions, cache.add(lengths, prefix))  # (N, C)
    last = prefix + torch.tensor(lengths, device=device).cumsum(0) - 1
    return model.logits(hidden[last])


def decode_step(model: GPT2, cache: KeyValueCache, token_ids: Tensor) -> Tensor:
    """One more token for every row in use.

    Args:
        token_ids: (B,) the tokens that stand next in each row.

    Returns:
        (B, V) logits for the tokens after them.
    """
    positions = torch.tensor(cache.lengths, device=token_ids.device)
    return model.logits(model(token_ids, positions, cache.step()))
