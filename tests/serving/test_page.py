"""What the page is made of: two answers at once, and a choice that is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights

from twolevers.data.prompt import Entry, alpaca, find_style
from twolevers.errors import InputError
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions
from twolevers.serving.engine import Engine
from twolevers.serving.page import Answered, answers, preference
from twolevers.serving.preferences import keep_preference, read_preferences
from twolevers.serving.served import ServedModel

ENTRY = Entry("Make it passive.", "He ate\u2028it.", output="")


@pytest.fixture
def models(
    folder: Path, tmp_path: Path, make_engine: Callable[..., Engine]
) -> tuple[ServedModel, ServedModel]:
    other = write_random_weights(tmp_path / "other", TINY, seed=9)
    base, tuned = (
        ServedModel(
            name,
            make_engine(load_model(path)),
            find_style("alpaca"),
            GenerationOptions(max_new_tokens=length),
        )
        for name, path, length in (("gpt2-nano", other, 5), ("gpt2-nano-68ca", folder, 15))
    )
    return base, tuned


def test_both_answer_side_by_side_each_as_alone(models: tuple[ServedModel, ServedModel]) -> None:
    came = list(answers(*models, ENTRY))
    assert (came[-1].base, came[-1].tuned) == tuple("".join(m.ask(ENTRY)) for m in models)
    assert all(came[-1].base.startswith(one.base) for one in came)
    assert len(came) > 10
    with pytest.raises(InputError, match="is empty"):
        list(answers(*models, Entry(" ", "", output="")))


def test_a_choice_is_kept_as_preference_training_reads_it(
    models: tuple[ServedModel, ServedModel], tmp_path: Path
) -> None:
    file = tmp_path / "home" / "preferences.jsonl"
    answered = Answered(ENTRY, "left 😀", "right")
    assert read_preferences(file) == []
    for tuned_is_better in (True, False):
        keep_preference(file, preference(*models, answered, tuned_is_better=tuned_is_better))
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    assert [(line["chosen"], line["rejected"]) for line in lines] == [
        ("right", "left 😀"),
        ("left 😀", "right"),
    ]
    assert [line["chosen_model"] for line in lines] == ["gpt2-nano-68ca", "gpt2-nano"]
    assert {line["prompt"] for line in lines} == {alpaca(ENTRY)}
    assert [one.chosen for one in read_preferences(file)] == ["right", "left 😀"]
