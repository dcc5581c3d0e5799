"""What is drawn from, against transformers; how it is drawn, against the probabilities."""

from __future__ import annotations

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from twolevers.generation.sampling import chances, draw, filtered_probabilities, greedy
from twolevers.options import GenerationOptions


def logits(vocab_size: int, spread: float) -> torch.Tensor:
    return torch.randn(6, vocab_size, generator=torch.Generator().manual_seed(4)) * spread


@pytest.mark.parametrize("vocab_size", [10, 2_000])
@pytest.mark.parametrize(("spread", "temperature"), [(0.01, 1.0), (1.0, 0.3), (20.0, 2.5)])
@pytest.mark.parametrize("top_k", [None, 7, 100_000])
@pytest.mark.parametrize("top_p", [None, 0.001, 0.5, 0.97, 1.0])
def test_the_distribution_is_that_of_transformers(
    vocab_size: int, spread: float, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    given = logits(vocab_size, spread)
    expected = TemperatureLogitsWarper(temperature)(None, given)
    if top_k is not None:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None:
        expected = TopPLogitsWarper(top_p)(None, expected)
    options = GenerationOptions(temperature=temperature, top_k=top_k, top_p=top_p)
    torch.testing.assert_close(filtered_probabilities(given, options), expected.softmax(-1))


@pytest.mark.parametrize("temperature", [5e-324, 1e-30, 1e-3, 1e30, 1e300])
def test_no_temperature_leaves_the_numbers(temperature: float) -> None:
    given = logits(100, 10.0)
    probabilities = filtered_probabilities(given, GenerationOptions(temperature=temperature))
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(6))
    if temperature < 1e-2:
        assert (probabilities.argmax(-1) == given.argmax(-1)).all()
        torch.testing.assert_close(probabilities.amax(-1), torch.ones(6))


def test_a_token_is_drawn_as_often_as_it_is_likely() -> None:
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.125, 0.375, 0.0])
    uniform = (torch.arange(8_000) + 0.5) / 8_000
    drawn = draw(probabilities.expand(8_000, -1), uniform)
    assert torch.bincount(drawn, minlength=6).tolist() == [0, 4_000, 0, 1_000, 3_000, 0]


def test_the_ends_of_chance_draw_a_possible_token() -> None:
    probabilities = torch.tensor([[0.0, 0.3, 0.7, 0.0]] * 2)
    assert draw(probabilities, torch.tensor([0.0, 1 - 2**-24])).tolist() == [1, 2]


def test_chance_is_a_prompts_own() -> None:
    together, [alone] = chances([[1, 2], [3], [1, 2]], seed=9), chances([[3]], seed=9)
    numbers = [[chance.next() for chance in together] for _ in range(3)]
    for of_all in numbers:
        assert of_all[1] == alone.next()
        assert of_all[0] != of_all[2]
    assert chances([[1, 2]], seed=9)[0].next() == numbers[0][0]


def test_greedy_takes_the_likeliest_in_every_type() -> None:
    given = logits(500, 3.0)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch.equal(greedy(given.to(dtype)), given.to(dtype).argmax(-1))
