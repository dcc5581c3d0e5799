"""From what was asked for to what will run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twolevers.classification.options import ClassifierTrainingOptions, ClassifyOptions
from twolevers.classification.plan import make_classify_plan
from twolevers.errors import InputError
from twolevers.options import FineTuneOptions, TrainingOptions, build_options
from twolevers.plan import changed_options, make_plan, resume_options
from twolevers.settings import Settings


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([{"instruction": "a", "output": "b"}]), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["gpt2-medium", "355M", "gpt2-medium (355M)", " GPT2-Medium "])
def test_a_model_has_three_names(name: str) -> None:
    plan = make_plan(FineTuneOptions(model=name, device="cpu"), Settings())
    assert plan.options.model == "gpt2-medium (355M)"
    assert plan.options.training.learning_rate == 5e-5
    assert plan.run_name == "gpt2-medium (355M) · cpu · 2 epochs"


def test_settings_give_way_to_what_is_asked() -> None:
    settings = Settings(choose_model="124M", choose_device="cpu")
    assert make_plan(FineTuneOptions(), settings).model.short_name == "gpt2-small"
    assert make_plan(FineTuneOptions(model="gpt2-xl"), settings).model.size == "1558M"


def test_paths_become_absolute(data: Path) -> None:
    plan = make_plan(FineTuneOptions(dataset="mine.json", device="cpu"), Settings())
    assert plan.options.dataset == str(data)
    assert make_plan(FineTuneOptions(device="cpu"), Settings()).options.dataset == "embedded"


def test_command_line_over_environment_over_default() -> None:
    environment = {"TWOLEVERS_EPOCHS": "3", "TWOLEVERS_SEED": "7", "TWOLEVERS_DROP_LAST": "false"}
    options = build_options({"epochs": "4"}, environment)
    assert (options.training.epochs, options.training.seed) == (4, 7)
    assert options.training.drop_last is False
    assert options.training.batch_size == 8


def test_resume_changes_only_what_is_asked_for() -> None:
    stored = FineTuneOptions(
        model="gpt2-nano (7M)", training=TrainingOptions(epochs=3, batch_size=4)
    )
    given = FineTuneOptions(device="cpu", training=TrainingOptions(epochs=5))
    merged = resume_options(stored, given, Settings())
    assert (merged.model, merged.device) == ("gpt2-nano (7M)", "cpu")
    assert (merged.training.epochs, merged.training.batch_size) == (5, 4)


@pytest.mark.parametrize("model", ["gpt2-nano (7M)", "gpt2-nano", "7M"])
def test_a_form_filled_in_as_before_changes_nothing(model: str, data: Path) -> None:
    given = FineTuneOptions(
        model=model, device="cpu", dataset="mine.json", training=TrainingOptions(batch_size=4)
    )
    stored = make_plan(given, Settings()).options
    assert resume_options(stored, given, Settings()) == stored
    levers_alone = FineTuneOptions(model=model, device="auto")
    assert resume_options(stored, levers_alone, Settings(choose_model="355M")) == stored


def test_resume_refuses_what_would_be_another_run() -> None:
    stored = make_plan(FineTuneOptions(device="cpu"), Settings()).options
    with pytest.raises(InputError) as raised:
        changed_options(stored, {"batch_size": 4, "seed": 1, "epochs": 5}, Settings())
    assert {problem.where for problem in raised.value.problems} == {"--batch-size", "--seed"}
    assert "was started with 8" in str(raised.value)
    assert changed_options(stored, {"batch_size": 8, "epochs": 5}, Settings()).training.epochs == 5


def test_complete_options_are_compared_whole() -> None:
    stored = make_plan(
        FineTuneOptions(device="cpu", training=TrainingOptions(batch_size=4)), Settings()
    ).options
    assert resume_options(stored, stored, Settings()) == stored
    training = stored.training.model_copy(update={"batch_size": 8})
    other = stored.model_copy(update={"training": training})
    with pytest.raises(InputError, match=r"--batch-size 8.*started with 4"):
        resume_options(stored, other, Settings())


def test_a_classification_goes_on_by_the_same_rules() -> None:
    lora = ClassifierTrainingOptions(train="lora", epochs=3)
    stored = make_classify_plan(ClassifyOptions(device="cpu", training=lora), Settings()).options
    given = ClassifyOptions(device="auto", training=ClassifierTrainingOptions(epochs=7))
    settings = Settings(choose_model="355M", choose_device="cpu")
    training = stored.training.model_copy(update={"epochs": 7})
    assert resume_options(stored, given, settings) == stored.model_copy(
        update={"training": training}
    ), "a form's defaults ask for nothing"
    refused = {"train": "head", "max_length": 9, "dataset": "embedded", "eval_every": 3}
    with pytest.raises(InputError) as raised:
        changed_options(stored, refused, Settings())
    wheres = {problem.where for problem in raised.value.problems}
    assert wheres == {"--train", "--max-length", "--dataset"}
