"""Learning rates by hand and by transformers' schedule."""

from __future__ import annotations

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from twolevers.errors import InputError
from twolevers.options import TrainingOptions
from twolevers.training.schedule import check_warmup, learning_rate_at


def rates(total: int, **options) -> list[float]:
    recipe = TrainingOptions(**options)
    return [learning_rate_at(step, total, recipe) for step in range(total)]


def test_constant():
    assert rates(3, learning_rate=5e-5) == [5e-5] * 3


def test_warmup_reaches_the_rate_and_stays():
    assert rates(6, learning_rate=4.0, warmup_steps=4) == [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]


def test_cosine_by_hand():
    found = rates(6, learning_rate=8.0, warmup_steps=2, lr_schedule="cosine")
    assert found == pytest.approx([4.0, 8.0, 8.0, 6.8284271, 4.0, 1.1715729])


def test_cosine_equals_transformers_after_warmup():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=3e-4)
    judge = get_cosine_schedule_with_warmup(optimizer, 5, 50)
    expected = []
    for _ in range(50):
        expected.append(judge.get_last_lr()[0])
        optimizer.step()
        judge.step()
    found = rates(50, learning_rate=3e-4, warmup_steps=5, lr_schedule="cosine")
    assert found[5:] == pytest.approx(expected[5:])


@pytest.mark.parametrize("warmup", [10, 11])
def test_warmup_as_long_as_training_is_refused(warmup):
    with pytest.raises(InputError, match=rf"--warmup-steps {warmup}: all of training takes 10"):
        check_warmup(10, TrainingOptions(learning_rate=1e-3, warmup_steps=warmup))
