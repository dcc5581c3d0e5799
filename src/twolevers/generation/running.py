"""A batch under way: sequences join and leave it between two token steps.

Letters as in `cache.py`. Whatever else is in the batch, in float32 a sequence gets the tokens that
it gets alone (up to ties within the last bits of a sum, which is taken in another order for another
number of rows): how an answer is drawn belongs to the sequence, chance included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.generation.cache import KeyValueCache, decode_step, prefill
from twolevers.generation.sampling import Chance, draw, filtered_probabilities, greedy
from twolevers.models.gpt2 import GPT2
from twolevers.options import GenerationOptions


@dataclass
class Completion:
    """The answer to one prompt."""

    token_ids: list[int] = field(default_factory=list)
    """New tokens, without the stop token."""
    ended: bool = False
    """The model ended it itself; else it ran into `max_new_tokens` or the model's context."""


@dataclass(eq=False)
class Running:
    """A prompt and its answer as far as it has come."""

    prompt: Sequence[int]
    options: GenerationOptions
    chance: Chance | None = None
    """What tokens are drawn with; None: greedy."""
    stop_id: int | None = END_OF_TEXT
    completion: Completion = field(default_factory=Completion)
    is_over: bool = False
    """Complete, and out of the batch."""

    def take(self, token_id: int, context_length: int) -> int | None:
        """Goes on by one token, which is returned; None where it is the stop token."""
        if token_id == self.stop_id:
            self.completion.ended = self.is_over = True
            return None
        self.completion.token_ids.append(token_id)
        room = min(self.options.max_new_tokens, context_length - len(self.prompt))
        self.is_over = len(self.completion.token_ids) >= room
        return token_id


Step = list[tuple[Running, int | None]]
"""The sequences that went on, each with its new token; None: the model ended it."""


class RunningBatch:
    """Up to `max_sequences` sequences that are continued together.

    Prompts are taken as valid: see `prompt_problems`. All calls are made in `no_grad` and with
    the model in `eval`; a call that raises leaves a batch that cannot go on. Not in
    `inference_mode`, where autocast would convert every weight anew for every token.
    """

    def __init__(self, model: GPT2, max_sequences: int) -> None:
        self._model = model
        self._cache = KeyValueCache(model.config, max_sequences, model.wte.weight.device)
        self._rows: list[Running] = []  # as the rows of the cache
        self._next_ids: list[int] = []  # the token that stands next in each row

    def __len__(self) -> int:
        return len(self._rows)

    def join(self, new: Sequence[Running]) -> Step:
        """Reads the prompts of new sequences and gives each its first token.

        Raises:
            ValueError: more than there is room for; nothing has changed then.
            TwoleversError: the model computes no finite numbers.
        """
        logits = prefill(self._model, self._cache, [running.prompt for running in new])
        first = len(self._rows)
        self._rows += new
        return self._take(logits, first)

    def step(self) -> Step:
        """One more token for every sequence.

        Raises:
            TwoleversError: the model computes no finite numbers.
        """
        token_ids = torch.tensor(self._next_ids, device=self._model.wte.weight.device)
        return self._take(decode_step(self._model, self._cache, token_ids), 0)

    def leave(self, running: Running) -> None:
        """Takes out a sequence that is not to be continued; one that is over has left already."""
        if running in self._rows:
            self._remove(self._rows.index(running))

    def _take(self, logits: Tensor, first: int) -> Step:
        """Logits of the rows from `first` on to their next tokens; what is over leaves."""
        going_on = self._rows[first:]
        token_ids = choose(logits, going_on).tolist()
        self._next_ids[first:] = token_ids
        context_length = self._model.config.context_length
        taken = [
            (running, running.take(token_id, context_length))
            for running, token_id in zip(going_on, token_ids, strict=True)
        ]
        for row in reversed(range(first, len(self._rows))):  # so that the last row goes on
            if self._rows[row].is_over:
                self._remove(row)
        return taken

    def _remove(self, row: int) -> None:
        self._cache.remove(row)
        # As the cache: the last takes the place.
        self._rows[row], self._next_ids[row] = self._rows[-1], self._next_ids[-1]
        self._rows.pop()
        self._next_ids.pop()


def choose(logits: Tensor, rows: Sequence[Running]) -> Tensor:
    """(B, V) logits to (B,) tokens, each as its sequence is told to."""
    token_ids = greedy(logits)
    drawn: dict[object, list[int]] = {}
    for row, running in enumerate(rows):
        if running.chance is not None:
            told = running.options
            drawn.setdefault((told.temperature, told.top_k, told.top_p), []).append(row)
    for alike in drawn.values():
        uniform = torch.stack([chance.next() for row in alike if (chance := rows[row].chance)])
        theirs = logits if len(alike) == len(rows) else logits[alike]
        probabilities = filtered_probabilities(theirs, rows[alike[0]].options)
        token_ids[alike] = draw(probabilities, uniform.to(logits.device))
    return token_ids
