"""Prompts to answers, many at once.

Prompts are sorted by length into groups of `generation_batch_size`, each group is read without
padding and continued a token a step for all; a sequence that ends leaves its group at once. In
float32 a prompt gets the answer that it gets alone, greedy or drawn (up to ties within the last
bits of a sum, which is taken in another order for another number of rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.errors import InputError, Problem
from twolevers.generation.running import Completion, Running, RunningBatch
from twolevers.generation.sampling import chances
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.options import GenerationOptions

OnToken = Callable[[int, int], None]
"""`on_token(index of the prompt, token id)`, called as tokens come; not for the stop token."""

OnEnd = Callable[[int], None]
"""`on_end(index of the prompt)`, called when its answer is complete."""


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
    if problems := list(prompt_problems(prompts, model.config)):
        raise InputError(problems)
    drawn = chances(prompts, seed) if options.temperature > 0 else [None] * len(prompts)
    all_running = [
        Running(prompt, options, chance, stop_id)
        for prompt, chance in zip(prompts, drawn, strict=True)
    ]
    index_of = {id(running): index for index, running in enumerate(all_running)}
    by_length = sorted(all_running, key=lambda running: len(running.prompt))
    size = options.generation_batch_size
    with _evaluating(model), torch.no_grad():
        for start in range(0, len(prompts), size):
            for running, token_id in _continue_group(model, by_length[start : start + size]):
                index = index_of[id(running)]
                if token_id is not None and on_token:
                    on_token(index, token_id)
                if running.is_over and on_end:
                    on_end(index)
    return [running.completion for running in all_running]


def _continue_group(model: GPT2, group: Sequence[Running]) -> Iterator[tuple[Running, int | None]]:
    """Continues all until each is over; yields their tokens as they come."""
    batch = RunningBatch(model, len(group))
    yield from batch.join(group)
    while len(batch):
        yield from batch.step()


def prompt_problems(prompts: Sequence[Sequence[int]], config: GPT2Config) -> Iterator[Problem]:
    """Why prompts cannot be continued: empty, no room for an answer, tokens nobody knows."""
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
