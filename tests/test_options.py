"""The options class and what is made of it."""

from __future__ import annotations

import pytest

from twolevers.classification.options import ClassifyOptions
from twolevers.errors import InputError
from twolevers.options import FineTuneOptions, TaskOptions, build_options, flag, option_fields


@pytest.mark.parametrize("task", [FineTuneOptions, ClassifyOptions])
def test_every_option_has_a_description_and_a_name_of_its_own(task: type[TaskOptions]) -> None:
    names = [name for _, name, _ in option_fields(task)]
    assert len(names) == len(set(names))
    assert all(field.description for _, _, field in option_fields(task))
    assert names[:5] == ["model", "device", "precision", "dataset", "weights"]  # the levers first


def test_the_default_is_the_chapters_recipe() -> None:
    training = FineTuneOptions().training
    assert (training.epochs, training.batch_size, training.weight_decay) == (2, 8, 0.1)
    assert (training.eval_every, training.eval_batches, training.dropout) == (5, 5, 0.0)
    assert training.drop_last
    assert training.lr_schedule == "constant"


def test_all_problems_in_one_error() -> None:
    given = {"epochs": 0, "batch_size": "x", "temperature": -1, "top_p": 0, "no_such": 1}
    with pytest.raises(InputError) as raised:
        build_options(given, {})
    assert {problem.where for problem in raised.value.problems} == {
        "--epochs", "--batch-size", "--temperature", "--top-p", "--no-such",
    }  # fmt: skip


@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_numbers_are_finite(value: str) -> None:
    with pytest.raises(InputError, match="--learning-rate"):
        build_options({"learning_rate": value}, {})


def test_flags() -> None:
    assert flag("gradient_accumulation_steps") == "--gradient-accumulation-steps"
