"""Pooling, LoRA, and what is frozen."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import TINY
from toy import CPU, Toy, make_texts

from twolevers.classification.lora import LoRALinear, add_lora, merge_lora
from twolevers.classification.model import (
    Classifier,
    ClassifierAbout,
    batch_of,
    load_classifier,
    save_classifier,
)
from twolevers.classification.options import ClassifierTrainingOptions
from twolevers.classification.predict import log_probabilities
from twolevers.errors import InputError
from twolevers.models.attention import plain_causal_within
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model

ABOUT = ClassifierAbout(("left", "right"), 64, "keep the end", "all")


@pytest.fixture
def classifier() -> Classifier:
    torch.manual_seed(11)
    return Classifier(GPT2(TINY).initialise(3), 3).eval()


def parts(classifier: Classifier) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in classifier.body.state_dict().items()}


@torch.no_grad()
def test_pooled_at_the_last_real_token(classifier: Classifier) -> None:
    """Against a padded batch, one matrix a text, computed plainly: padding decides nothing."""
    texts = make_texts(7)
    longest = max(len(text.token_ids) for text in texts)
    batch, _ = batch_of(texts)
    found = classifier(batch)
    for padding in (0, 96):
        for text, logits in zip(texts, found, strict=True):
            padded = text.token_ids + [padding] * (longest - len(text.token_ids))
            hidden = classifier.body(
                torch.tensor(padded), torch.arange(longest), plain_causal_within([longest])
            )
            last = hidden[len(text.token_ids) - 1]
            expected = classifier.head.weight @ last + classifier.head.bias
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


def test_many_at_once_as_one_by_one(classifier: Classifier) -> None:
    texts = make_texts(300)  # over several batches
    together = log_probabilities(classifier, texts, CPU, "float32")
    alone = torch.cat([log_probabilities(classifier, [text], CPU, "float32") for text in texts[:9]])
    torch.testing.assert_close(together[:9], alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(together.exp().sum(-1), torch.ones(300))


@torch.no_grad()
def test_lora_begins_as_the_identity(classifier: Classifier) -> None:
    batch, _ = batch_of(make_texts(5))
    before = classifier(batch)
    add_lora(classifier.body, rank=4, alpha=8)
    assert torch.equal(classifier(batch), before)
    assert sum(isinstance(module, LoRALinear) for module in classifier.modules()) == 4 * 2


@torch.no_grad()
def test_lora_merges_exactly(classifier: Classifier) -> None:
    plain = copy.deepcopy(classifier.body)
    batch, _ = batch_of(make_texts(5))
    add_lora(classifier.body, rank=4, alpha=8)
    expected = {}
    for name, module in classifier.body.named_modules():
        if isinstance(module, LoRALinear):
            module.b.normal_(0, 0.1)
            weight = plain.get_submodule(name).weight
            expected[f"{name}.weight"] = weight + 8 / 4 * module.b @ module.a
    with_updates = classifier(batch)
    merge_lora(classifier.body)
    merged = classifier.body.state_dict()
    assert merged.keys() == plain.state_dict().keys()
    for name, weight in plain.state_dict().items():
        assert torch.equal(merged[name], expected.get(name, weight)), name
    torch.testing.assert_close(classifier(batch), with_updates, atol=1e-5, rtol=0)


@pytest.mark.parametrize("trained", ["head", "last_block", "all", "lora"])
def test_frozen_parts_keep_their_bits(toy: Toy, trained: str) -> None:
    before = load_model(toy.weights).state_dict()
    result = toy.train(train=trained, epochs=1)
    after, about = load_classifier(result.checkpoint)
    changed = {
        name for name, tensor in after.body.state_dict().items() if not tensor.equal(before[name])
    }
    every = set(before)
    blocks = {name for name in every if name.startswith("h.")}
    assert (
        changed
        == {
            "head": set(),
            "last_block": {name for name in every if name.startswith(("h.1.", "ln_f."))},
            "all": every,
            "lora": {n for n in blocks if n.endswith(".weight") and ".ln_" not in n},
        }[trained]
    )
    assert (about.trained, about.labels) == (trained, ("left", "right"))


def test_counts_what_is_trained(toy: Toy) -> None:
    counted = {
        name: toy.train(name, train=name, epochs=1, lora_rank=2).num_trained
        for name in ("head", "last_block", "all", "lora")
    }
    c, layers, head = 32, 2, 2 * 32 + 2
    block = 12 * c * c + 13 * c
    assert counted == {
        "head": head,
        "last_block": head + block + 2 * c,
        "all": head + TINY.num_parameters,
        # Rank times in and out of c_attn, c_proj, c_fc, c_proj.
        "lora": head + layers * 2 * (c + 3 * c + c + c + c + 4 * c + 4 * c + c),
    }


def test_saved_and_loaded(classifier: Classifier, tmp_path: Path) -> None:
    texts = make_texts(5)
    two = Classifier(classifier.body, 2).eval()
    expected = log_probabilities(two, texts, CPU, "float32")
    save_classifier(two, ABOUT, tmp_path)
    assert {"config.json", "model.safetensors", "head.safetensors", "classifier.json"} <= {
        file.name for file in tmp_path.iterdir()
    }
    loaded, about = load_classifier(tmp_path)
    assert about == ABOUT
    assert torch.equal(log_probabilities(loaded, texts, CPU, "float32"), expected)


def test_a_folder_without_a_classifier_is_refused(toy: Toy) -> None:
    with pytest.raises(InputError, match="holds no classifier"):
        load_classifier(toy.weights)


ABOUT_TEXT = {
    "labels": ["left", "right"],
    "max_length": 64,
    "cut": "keep the end",
    "trained": "all",
}


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("head.safetensors", "no", "Error while deserializing"),
        ("head.safetensors", None, "head.safetensors is not there"),
        ("model.safetensors", None, "model.safetensors is not there"),
        ("classifier.json", "[]", "classifier.json: Input should be an object"),
        ("classifier.json", {"labels": "ab"}, "labels: Input should be a valid array"),
        ("classifier.json", {"labels": ["a", "a"]}, "labels: one stands twice"),
        ("classifier.json", {"labels": ["a", "b", "c"]}, "size mismatch"),
        ("classifier.json", {"max_length": "64"}, "max_length: Input should be a valid integer"),
        ("classifier.json", {"max_length": -3}, "max_length: Input should be greater"),
        ("classifier.json", {"cut": "somewhere"}, "cut: Input should be 'keep the start'"),
    ],
)
def test_a_broken_classifier_is_refused(
    classifier: Classifier, tmp_path: Path, file: str, content: Any, told: str
) -> None:
    save_classifier(Classifier(classifier.body, 2), ABOUT, tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        changed = content if isinstance(content, str) else json.dumps(ABOUT_TEXT | content)
        (tmp_path / file).write_text(changed, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_classifier(tmp_path)
    assert "is not whole" in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_default_trains_as_the_chapter() -> None:
    recipe = ClassifierTrainingOptions()
    assert (recipe.train, recipe.epochs, recipe.batch_size) == ("last_block", 5, 8)
    assert (recipe.weight_decay, recipe.seed) == (0.1, 123)
    assert (recipe.lora_rank, recipe.lora_alpha) == (16, 16)
