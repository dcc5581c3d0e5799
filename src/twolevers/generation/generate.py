"""Prompts to answers, many at once.

Prompts are sorted by length into groups of `generation_batch_size`, each group is read without
padding and continued a token a step for all; a sequence that ends leaves its group at once. In
float32 a prompt gets the answer that it gets alone, greedy or drawn (up to ties within the last
bits of a sum, which is taken in another order for another number of rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.errors import InputError, Problem
from twolevers.generation.cache import KeyValueCache, decode_step, prefill
from twolevers.generation.sampling import Chance, draw, filtered_probabilities, greedy
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.options import GenerationOptions

OnToken = Callable[[int, int], None]
"""`on_token(index of the prompt, token id)`, called as tokens come; not for the stop token."""

OnEnd = Callable[[int], None]
"""`on_end(index of the prompt)`, called when its answer is complete."""


@dataclass
class Completion:
    """The answer to one prompt."""

    token_ids: list[int] = field(default_factory=list)
    """New tokens, without the stop token."""
    ended: bool = False
    """The model ended it itself; else it ran into `max_new_tokens` or the model's context."""


def generate(
    model: GPT2,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    *,
    seed: int = 0,
    stop_id: int | None = END_OF_TEXT,
    on_token: OnToken | None = None,
) -> list[list[int]]:
    """The new token ids of each prompt, in the order given, without the stop token.

    An answer ends before `stop_id`, after `max_new_tokens`, or where prompt and answer fill the
    model's context. The same call gives the same answers; `stop_id=None` never stops early.

    Raises:
        InputError: a prompt that is empty, leaves no room in the context or holds a token that
            the model does not know.
        TwoleversError: the model computes no finite numbers.
    """
    completions = complete(model, prompts, options, seed=seed, stop_id=stop_id, on_token=on_token)
    return [completion.token_ids for completion in completions]


def complete(
    model: GPT2,
    prompts: Sequence[Sequence[int]],
    options: GenerationOptions,
    *,
    seed: int = 0,
    stop_id: int | None = END_OF_TEXT,
    on_token: OnToken | None = None,
    on_end: OnEnd | None = None,
) -> list[Completion]:
    """As `generate`, and says of each answer whether the model ended it."""
    if problems := list(_problems(prompts, model.config)):
        raise InputError(problems)
    chance = Chance(prompts, seed) if options.temperature > 0 else None
    completions = [Completion() for _ in prompts]
    by_length = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    size = options.generation_batch_size
    with _evaluating(model), torch.inference_mode():
        for start in range(0, len(prompts), size):
            group = {index: prompts[index] for index in by_length[start : start + size]}
            for index, token_id in _continue_group(model, group, options, chance, stop_id):
                if token_id is None or token_id == stop_id:
                    completions[index].ended = token_id is not None
                    if on_end:
                        on_end(index)
                else:
                    completions[index].token_ids.append(token_id)
                    if on_token:
                        on_token(index, token_id)
    return completions


def _continue_group(
    model: GPT2,
    group: dict[int, Sequence[int]],
    options: GenerationOptions,
    chance: Chance | None,
    stop_id: int | None,
) -> Iterator[tuple[int, int | None]]:
    """Yields (prompt, new token) as they come; last of each prompt the stop token, or None where
    its room is used up."""
    device = model.wte.weight.device
    cache = KeyValueCache(model.config, len(group), device)
    rows = list(group)  # the prompt that each row of the cache belongs to
    context_length = model.config.context_length
    room = {
        index: min(options.max_new_tokens, context_length - len(prompt))
        for index, prompt in group.items()
    }
    logits = prefill(model, cache, list(group.values()))
    while True:
        token_ids = _choose(logits, rows, options, chance)
        ended = []
        for row, (index, token_id) in enumerate(zip(rows, token_ids.tolist(), strict=True)):
            yield index, token_id
            room[index] -= 1
            if token_id == stop_id:
                ended.append(row)
            elif room[index] == 0:
                yield index, None
                ended.append(row)
        going_on = list(range(len(rows)))
        for row in reversed(ended):  # from behind, so that the last row is one that goes on
            cache.remove(row)
            for per_row in (rows, going_on):  # as the cache: the last takes the place
                per_row[row] = per_row[-1]
                per_row.pop()
        if not rows:
            return
        if ended:
            token_ids = token_ids[torch.tensor(going_on, device=device)]
        logits = decode_step(model, cache, token_ids)


def _choose(
    logits: Tensor, rows: Sequence[int], options: GenerationOptions, chance: Chance | None
) -> Tensor:
    """(B, V) logits to (B,) tokens."""
    likeliest = greedy(logits)
    if chance is None:
        return likeliest
    return draw(filtered_probabilities(logits, options), chance.next(rows).to(logits.device))


def _problems(prompts: Sequence[Sequence[int]], config: GPT2Config) -> Iterator[Problem]:
    for index, prompt in enumerate(prompts):
        where = f"prompt {index + 1} of {len(prompts)}"
        if len(prompt) == 0:
            yield Problem(where, None, "holds no token", "give it at least one")
        elif len(prompt) >= config.context_length:
            what = f"has {len(prompt):,} tokens, the model sees {config.context_length:,} at once"
            way_out = f"shorten it to at most {config.context_length - 1:,}, the answer needs room"
            yield Problem(where, None, what, way_out)
        elif not 0 <= min(prompt) <= max(prompt) < config.vocab_size:
            unknown = next(token for token in prompt if not 0 <= token < config.vocab_size)
            what = f"is no token of the model, which has {config.vocab_size:,}"
            yield Problem(f"{where}, token", unknown, what, "encode it with the GPT-2 tokenizer")


@contextmanager
def _evaluating(model: GPT2) -> Iterator[None]:
    """Dropout off; what was on before is on again afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
