"""A run of the chapter's recipe against the chapter's losses: holds, fails, does not apply."""

from __future__ import annotations

import pytest

from twolevers.options import FineTuneOptions
from twolevers.published import check_losses

CHAPTERS_OWN = {
    "train_loss_before": 3.8259,
    "val_loss_before": 3.7619,
    "train_loss_after": 0.299,
    "val_loss_after": 0.657,
}
TAGS = {
    # Computed from the chapter's file, apart from this project.
    "twolevers.data_sha256": "7e09a9af353722ca15c18bc580f093f9c39d3178335a75177319cb1e1d163944",
    "twolevers.weights_source": "hub:openai-community/gpt2-medium@6dcaa7a9",
}


def recipe(**other: object) -> FineTuneOptions:
    training = {"learning_rate": 5e-5, **other}
    return FineTuneOptions.model_validate({"model": "gpt2-medium (355M)", "training": training})


def test_the_chapters_own_figures_hold() -> None:
    checks = check_losses(CHAPTERS_OWN, recipe(), TAGS)
    assert [check.verdict for check in checks] == ["holds"] * 4
    on_a_cpu = CHAPTERS_OWN | {"train_loss_before": 3.839, "val_loss_before": 3.762}
    assert [check.verdict for check in check_losses(on_a_cpu, recipe(), TAGS)] == ["holds"] * 4


def test_other_losses_fail_and_missing_ones_do_not_apply() -> None:
    measured = {"val_loss_before": 3.9, "train_loss_before": 3.9, "val_loss_after": 0.73}
    checks = check_losses(measured, recipe(), TAGS)
    verdicts = {check.published.key: check.verdict for check in checks}
    assert verdicts == {
        "val_loss_before": "fails",  # 3.7 % above
        "train_loss_before": "holds",
        "val_loss_after": "fails",  # 11 % above
        "train_loss_after": "does not apply",
    }
    text = str(checks[0])
    assert text.startswith("validation loss before training 3.7619: fails (3.900, within 2.5%")


@pytest.mark.parametrize(
    ("options", "tags", "told"),
    [
        (FineTuneOptions(model="gpt2-nano (7M)"), TAGS, "this is gpt2-nano (7M)"),
        (recipe(batch_size=4), TAGS, "another recipe: batch_size 4"),
        (recipe(), TAGS | {"twolevers.data_sha256": "ab"}, "the data is not the chapter's"),
        (recipe(), TAGS | {"twolevers.weights_source": "local"}, "weights are not those"),
    ],
)
def test_another_recipe_does_not_apply(
    options: FineTuneOptions, tags: dict[str, str], told: str
) -> None:
    checks = check_losses(CHAPTERS_OWN, options, tags)
    assert {check.verdict for check in checks} == {"does not apply"}
    assert told in str(checks[0])
