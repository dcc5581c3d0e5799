"""A whole training call on a problem that a tiny model learns."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tiny import TINY
from torch.nn import functional as F
from toy import CPU, Elsewhere, Toy, make_texts

from twolevers.classification.evaluate import evaluate_classifier
from twolevers.classification.model import Classifier, batch_of
from twolevers.errors import InputError, TrainingError
from twolevers.files import read_json, sha256_of
from twolevers.models.weights import load_model
from twolevers.progress import Silent


def test_a_separable_problem_is_learnt(toy: Toy) -> None:
    result = toy.train(train="all", epochs=12)
    scores = evaluate_classifier(
        result.checkpoint,
        toy.data(),
        device=CPU,
        precision="float32",
        output=toy.root / "scores.json",
        progress=Silent(),
    )
    by_split = {one.split: one for one in scores.splits}
    assert by_split["test"].accuracy >= 0.9
    assert by_split["test"].majority_accuracy == 0.5
    assert by_split["train"].loss < 0.2 < result.train_loss_before
    assert (result.steps, result.epochs) == (96, 12)
    tables = read_json(scores.path)["splits"]["test"]
    assert sum(map(sum, tables["confusion"])) == 20
    assert sum(one["count"] for one in tables["reliability"]) == 20


def test_the_same_twice_to_the_bit(toy: Toy) -> None:
    first, second, other = (
        toy.train(folder, train="lora", epochs=1, seed=seed)
        for folder, seed in (("first", 123), ("second", 123), ("other", 124))
    )
    assert first.sha256 == second.sha256 != other.sha256
    heads = [sha256_of(one.checkpoint / "head.safetensors") for one in (first, second)]
    assert heads[0] == heads[1]
    assert first.val_loss_after == second.val_loss_after


def test_first_steps_are_plain_adamw(toy: Toy) -> None:
    """Against PyTorch's own loop over the same rows, all of them in one batch."""
    toy.train(train="last_block", batch_size=64, epochs=3)
    body = load_model(toy.weights)
    torch.manual_seed(123)
    plain = Classifier(body, 2)
    body.requires_grad_(False)
    trained = [*body.h[1].parameters(), *body.ln_f.parameters(), *plain.head.parameters()]
    for parameter in trained:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(trained, lr=3e-3, weight_decay=0.1)
    batch, labels = batch_of(make_texts(64, 1))
    losses = []
    for _ in range(3):
        loss = F.cross_entropy(plain(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert [*toy.tracker.values("train/loss").values()] == pytest.approx(losses, rel=1e-4)


def test_another_device_is_compared_with_the_cpu_first(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cpu = toy.train("cpu", train="lora", epochs=1)
    toy.device = Elsewhere("cpu", "a processor", 1, 0)
    losses = []

    def compare(name: str, loss_on: Callable[[str], float]) -> None:
        losses.extend([loss_on("cpu"), loss_on(name)])

    monkeypatch.setattr("twolevers.classification.train.check_agreement", compare)
    assert toy.train("elsewhere", train="lora", epochs=1).sha256 == on_cpu.sha256
    assert losses == [pytest.approx(math.log(2), abs=0.3)] * 2


@pytest.mark.parametrize("trained", ["last_block", "lora"])
def test_half_precision_trains_alike(toy: Toy, trained: str) -> None:
    whole = toy.train("float32", train=trained, epochs=1)
    toy.precision = "bfloat16"
    half = toy.train("bfloat16", train=trained, epochs=1)
    assert half.val_loss_after == pytest.approx(whole.val_loss_after, abs=0.1)
    assert half.sha256 != whole.sha256


def test_what_is_tracked(toy: Toy) -> None:
    result = toy.train(train="head", eval_every=5)
    values = toy.tracker.values
    assert set(values("train/loss")) == set(range(16))
    assert set(values("val/loss")) == {0, 5, 10, 15}
    assert set(values("val/epoch_accuracy")) == {7, 15}
    assert values("val/loss")[15] == result.val_loss_after
    assert result.train_loss_before == pytest.approx(math.log(2), abs=0.3)
    assert result.step_seconds <= result.train_seconds
    assert result.num_parameters > result.num_trained


def test_a_loss_that_is_no_number_stops(toy: Toy) -> None:
    with pytest.raises(TrainingError, match="lower --learning-rate"):
        toy.train(train="all", learning_rate=1e30, epochs=3)
    assert not (toy.root / "run" / "checkpoints").exists()


def test_too_few_texts_for_a_batch(toy: Toy) -> None:
    with pytest.raises(InputError, match="do not fill one batch"):
        toy.train(batch_size=65)


def test_texts_longer_than_own_weights_take(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = TINY.context_length
    long = toy.data().model_copy(update={"longest": 1000})
    monkeypatch.setattr(Toy, "data", lambda _: long)
    what = f"texts have up to 1000 tokens, and these weights take {limit}; .* --max-length {limit}"
    with pytest.raises(InputError, match=what):
        toy.train()
