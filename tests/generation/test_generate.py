"""Answers against those of transformers, and against what each prompt gets alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import write_random_weights
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GPT2LMHeadModel

from twolevers.device import find_device
from twolevers.errors import InputError, TwoleversError
from twolevers.generation.generate import complete, generate
from twolevers.models.attention import plain_causal_within
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions
from twolevers.training.precision import autocast


def options(**changes: float | int | None) -> GenerationOptions:
    return GenerationOptions.model_validate({"max_new_tokens": 30, **changes})


def test_greedy_answers_equal_those_of_transformers(
    model: GPT2, folder: Path, prompts: list[list[int]]
) -> None:
    theirs = GPT2LMHeadModel.from_pretrained(folder).eval()
    ours = generate(model, prompts, options(), stop_id=None)
    for prompt, answer in zip(prompts, ours, strict=True):
        expected = theirs.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=30,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert answer == expected[0, len(prompt) :].tolist()


def answers_without_a_cache(
    model: GPT2, prompt: list[int], count: int, stop_id: int | None
) -> list[int]:
    """The plain way: the whole sequence again for each token, explicit mask and softmax."""
    ids = list(prompt)
    for _ in range(count):
        length = len(ids)

        def attend(_layer, q, k, v, length=length):  # type: ignore[no-untyped-def]
            scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
            seen = torch.ones(length, length, dtype=torch.bool).tril()
            return torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -1e30).softmax(-1), v)

        with torch.no_grad():
            hidden = model(torch.tensor(ids), torch.arange(length), attend)
            token = int(model.logits(hidden[-1]).argmax())
        if token == stop_id:
            break
        ids.append(token)
    return ids[len(prompt) :]


def test_the_cache_changes_no_answer(model: GPT2, prompts: list[list[int]]) -> None:
    answers = generate(model, prompts[:12], options(), stop_id=None)
    for prompt, answer in zip(prompts, answers, strict=False):
        assert answer == answers_without_a_cache(model, prompt, 30, None)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "drawing",
    [{}, {"temperature": 0.7}, {"temperature": 1.3, "top_k": 20, "top_p": 0.8}],
    ids=["greedy", "temperature", "top-k and top-p"],
)
def test_each_prompt_gets_the_answer_it_gets_alone(
    tmp_path: Path, prompts: list[list[int]], drawing: dict[str, float], seed: int
) -> None:
    config = GPT2Config(
        emb_dim=24 + 8 * seed, num_layers=2, num_heads=4, vocab_size=220, context_length=80
    )
    model = load_model(write_random_weights(tmp_path, config, seed=seed))
    alone = [complete(model, [prompt], options(**drawing), stop_id=3)[0] for prompt in prompts]
    for size in (7, 64):
        together = complete(
            model, prompts, options(generation_batch_size=size, **drawing), stop_id=3
        )
        assert together == alone
    backwards = complete(model, prompts[::-1], options(**drawing), stop_id=3)
    assert backwards[::-1] == alone


def test_an_answer_ends_before_the_stop_token(model: GPT2, prompts: list[list[int]]) -> None:
    forced = generate(model, prompts, options(), stop_id=None)
    stop_id = forced[0][4]
    completions = complete(model, prompts, options(), stop_id=stop_id)
    assert any(completion.ended for completion in completions)
    for full, completion in zip(forced, completions, strict=True):
        expected = full[: full.index(stop_id)] if stop_id in full else full
        assert completion.token_ids == expected
        assert completion.ended == (stop_id in full)


def test_an_answer_may_be_empty(model: GPT2, prompts: list[list[int]]) -> None:
    first = generate(model, [prompts[0]], options(max_new_tokens=1), stop_id=None)[0][0]
    completion = complete(model, [prompts[0]], options(), stop_id=first)[0]
    assert completion.token_ids == []
    assert completion.ended


def test_prompt_and_answer_together_fill_the_context_at_most(model: GPT2) -> None:
    context_length = model.config.context_length
    lengths = [1, context_length - 40, context_length - 5, context_length - 1]
    completions = complete(
        model, [[7] * length for length in lengths], options(max_new_tokens=200), stop_id=None
    )
    got = [len(completion.token_ids) for completion in completions]
    assert got == [context_length - length for length in lengths]
    assert not any(completion.ended for completion in completions)


def test_room_added_later_keeps_what_the_cache_holds(model: GPT2) -> None:
    prompts = [[1, 2, 3], [4] * 60]  # beyond 64 positions while both are under way
    answers = generate(model, prompts, options(), stop_id=None)
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer == answers_without_a_cache(model, prompt, 30, None)


def test_tokens_are_told_as_they_come(model: GPT2, prompts: list[list[int]]) -> None:
    told: list[tuple[int, int]] = []
    answers = generate(
        model, prompts, options(), stop_id=3, on_token=lambda *token: told.append(token)
    )
    for index, answer in enumerate(answers):
        assert [token for of, token in told if of == index] == answer


def test_the_same_seed_draws_the_same_and_another_does_not(
    model: GPT2, prompts: list[list[int]]
) -> None:
    drawn = [
        generate(model, prompts, options(temperature=1.0), seed=seed, stop_id=None)
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1]
    assert sum(a == b for a, b in zip(drawn[0], drawn[2], strict=True)) == 0


def test_one_prompt_given_three_times_is_drawn_three_times(model: GPT2) -> None:
    answers = generate(model, [[1, 2, 3]] * 3, options(temperature=1.0), stop_id=None)
    assert len(set(map(tuple, answers))) == 3


def test_top_k_one_is_greedy_at_any_temperature(model: GPT2, prompts: list[list[int]]) -> None:
    greedy = generate(model, prompts, options(), stop_id=None)
    assert generate(model, prompts, options(temperature=5.0, top_k=1), stop_id=None) == greedy
    assert generate(model, prompts, options(temperature=1e-300), stop_id=None) == greedy


def test_dropout_is_off_and_training_goes_on_afterwards(
    folder: Path, model: GPT2, prompts: list[list[int]]
) -> None:
    training = load_model(folder, dropout=0.5).train()
    assert generate(training, prompts, options(), stop_id=None) == generate(
        model, prompts, options(), stop_id=None
    )
    assert training.training
    hidden = training(torch.tensor([1, 2]), torch.arange(2), lambda _layer, q, k, v: v)
    training.logits(hidden).sum().backward()  # what was computed with before can still be trained


def test_no_prompts_have_no_answers(model: GPT2) -> None:
    assert generate(model, [], options()) == []


def test_all_prompts_that_cannot_be_continued_are_named_at_once(model: GPT2) -> None:
    prompts = [[1], [], [5] * 96, [1, 211], [-1]]
    with pytest.raises(InputError) as caught:
        generate(model, prompts, options())
    message = str(caught.value)
    assert len(caught.value.problems) == 4
    assert "prompt 2 of 5: holds no token" in message
    assert "prompt 3 of 5: has 96 tokens, the model sees 96 at once; shorten it" in message
    assert "prompt 4 of 5, token 211: is no token of the model, which has 211" in message
    assert "prompt 5 of 5, token -1" in message


@pytest.mark.parametrize("drawing", [{}, {"temperature": 1.0}])
def test_logits_that_are_no_numbers_are_an_error_and_no_answer(
    folder: Path, drawing: dict[str, float]
) -> None:
    broken = load_model(folder)
    with torch.no_grad():
        broken.ln_f.bias.fill_(float("nan"))
    with pytest.raises(TwoleversError, match="no finite numbers"):
        generate(broken, [[1, 2]], options(**drawing))


def test_bfloat16_answers_too(model: GPT2, prompts: list[list[int]]) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        answers = generate(model, prompts, options(temperature=0.5, top_p=0.9), stop_id=None)
    assert [len(answer) for answer in answers] == [30] * len(prompts)


class Conversions(TorchDispatchMode):
    """Counts how often a matrix of weights is converted to another type."""

    def __init__(self, model: GPT2) -> None:
        super().__init__()
        self.shapes = {tuple(p.shape) for p in model.parameters() if p.ndim == 2}
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.aten._to_copy.default and tuple(args[0].shape) in self.shapes:
            self.count += 1
        return func(*args, **kwargs or {})


def test_weights_are_converted_once_an_answer_not_once_a_token(
    model: GPT2, prompts: list[list[int]]
) -> None:
    """Four linear layers a block and the output layer."""
    device = find_device("cpu")
    with autocast(device, "bfloat16"), Conversions(model) as conversions:
        generate(model, prompts[:1], options(), stop_id=None)
    assert conversions.count == 4 * model.config.num_layers + 1


def test_answers_in_bfloat16_are_of_the_likeliest_tokens(
    model: GPT2, prompts: list[list[int]]
) -> None:
    """Each token is, in float32, as good as the likeliest, but for bfloat16's rounding."""
    with autocast(find_device("cpu"), "bfloat16"):
        answers = generate(model, prompts, options(), stop_id=None)
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([*prompt, *answer])
        with torch.no_grad():
            hidden = model(ids, torch.arange(len(ids)), plain_causal_within([len(ids)]))
            logits = model.logits(hidden)[len(prompt) - 1 : -1]
        chosen = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
        assert (logits.max(1).values - chosen).max() < 0.03 * logits.std()
