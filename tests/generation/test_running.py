"""A batch that sequences join and leave under way, against what each gets alone."""

from __future__ import annotations

from collections import deque

import pytest
import torch

from twolevers.generation.generate import complete
from twolevers.generation.running import Running, RunningBatch
from twolevers.generation.sampling import Chance
from twolevers.models.gpt2 import GPT2
from twolevers.options import GenerationOptions

GREEDY = GenerationOptions(max_new_tokens=30)
WAYS = [
    GREEDY,
    GenerationOptions(max_new_tokens=9),
    GenerationOptions(max_new_tokens=25, temperature=0.8),
    GenerationOptions(max_new_tokens=30, temperature=1.4, top_k=20, top_p=0.8),
]


@pytest.mark.parametrize("ways", [[GREEDY], WAYS], ids=["greedy", "each in its own way"])
def test_whoever_joins_when_gets_the_answer_it_gets_alone(
    model: GPT2, prompts: list[list[int]], ways: list[GenerationOptions]
) -> None:
    stop_id = complete(model, [prompts[0]], GREEDY, stop_id=None)[0].token_ids[4]
    asked = [
        Running(prompt, way, Chance(prompt, 7) if way.temperature else None, stop_id)
        for i, prompt in enumerate(prompts)
        for way in [ways[i % len(ways)]]
    ]
    waiting, batch, turn, together = deque(asked), RunningBatch(model, 5), 0, 0
    with torch.inference_mode():
        while waiting or len(batch):
            room = min(5 - len(batch), len(waiting), 1 + turn % 3)
            if room and turn % 4 != 1:  # some wait although there is room
                batch.join([waiting.popleft() for _ in range(room)])
            if len(batch):
                batch.step()
            together, turn = max(together, len(batch)), turn + 1
    assert together == 5
    for running in asked:
        assert running.is_over
        way, prompt = running.options, running.prompt
        assert running.completion == complete(model, [prompt], way, seed=7, stop_id=stop_id)[0]
    assert {running.completion.ended for running in asked} == {True, False}


def test_one_that_leaves_changes_nothing_for_the_others(
    model: GPT2, prompts: list[list[int]]
) -> None:
    asked = [Running(prompt, GREEDY, stop_id=None) for prompt in prompts[:6]]
    batch = RunningBatch(model, 6)
    with torch.inference_mode():
        batch.join(asked)
        for gone in (asked[0], asked[5], asked[2]):
            batch.step()
            batch.leave(gone)
            batch.leave(gone)  # has left already
        while len(batch):
            batch.step()
    assert [len(running.completion.token_ids) for running in asked] == [2, 30, 4, 30, 30, 3]
    for running in asked:
        full = complete(model, [running.prompt], GREEDY, stop_id=None)[0].token_ids
        assert running.completion.token_ids == full[: len(running.completion.token_ids)]
