"""Weights in and out, with transformers and safetensors as judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import TINY, published_config, random_tensors, write_random_weights
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, GPT2LMHeadModel, GPT2Tokenizer
from transformers.utils import logging as transformers_logging

from twolevers.data.tokenizer import get_tokenizer
from twolevers.errors import InputError
from twolevers.files import sha256_of
from twolevers.models.attention import causal_within
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model, read_config, save_model

SMALL_VOCABULARY = GPT2Config(emb_dim=24, num_layers=2, num_heads=2, vocab_size=90)


def assert_holds(model: GPT2, seed: int, dtype: torch.dtype = torch.float32) -> None:
    """Every parameter is what the published layout says it is."""
    parameters = model.state_dict()
    for name, tensor in random_tensors(model.config, seed, dtype).items():
        turned = tensor.ndim == 2 and name.startswith("h.")
        expected = (tensor.T if turned else tensor).float()
        assert torch.equal(parameters.pop(name), expected), name
    assert not parameters


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("prefix", ["", "transformer."])
@pytest.mark.parametrize("with_buffers", [False, True])
def test_every_published_form_is_read(
    tmp_path: Path, dtype: torch.dtype, prefix: str, with_buffers: bool
) -> None:
    write_random_weights(tmp_path, SMALL_VOCABULARY, 4, dtype, prefix, with_buffers)
    model = load_model(tmp_path)
    assert_holds(model, 4, dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_shards_and_a_single_file_are_read(tmp_path: Path) -> None:
    folder = write_random_weights(tmp_path / "shards", SMALL_VOCABULARY, seed=6, shards=3)
    assert_holds(load_model(folder), 6)
    whole = write_random_weights(tmp_path / "whole", SMALL_VOCABULARY, seed=6)
    file = (whole / "model.safetensors").rename(tmp_path / "mine.safetensors")
    assert_holds(load_model(file, SMALL_VOCABULARY), 6)


def test_parameters_are_no_view_of_the_file(tmp_path: Path) -> None:
    folder = write_random_weights(tmp_path, SMALL_VOCABULARY, seed=2)
    model = load_model(folder, dropout=0.3, gradient_checkpointing=True)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-4000, 2)
        file.write(b"\xff" * 4000)
    assert_holds(model, 2)
    assert model.dropout.p == model.config.dropout == 0.3
    assert model.gradient_checkpointing


def test_transformers_loads_what_we_save(
    tmp_path: Path, tiny_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load_model(tiny_folder)
    assert save_model(model, tmp_path) == sha256_of(tmp_path / "model.safetensors")
    transformers_logging.set_verbosity_warning()
    transformers_logging.disable_progress_bar()
    theirs, info = GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    assert capfd.readouterr().err == ""
    ids = torch.arange(40) * 1000
    with torch.no_grad():
        expected = theirs.eval()(ids[None]).logits[0]
        logits = model.logits(model(ids, torch.arange(40), causal_within([40])))
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    assert theirs.generation_config.eos_token_id == 50256


def test_saved_and_loaded_is_the_same_to_the_bit(tmp_path: Path, tiny_folder: Path) -> None:
    model = load_model(tiny_folder)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    for name, parameter in model.state_dict().items():
        assert torch.equal(parameter, again.state_dict()[name]), name
    stored = load_file(tmp_path / "model.safetensors")
    assert set(stored) == {f"transformer.{name}" for name in random_tensors(TINY, 0, torch.float32)}


def test_half_precision_models_are_saved_in_float32(tmp_path: Path) -> None:
    model = GPT2(SMALL_VOCABULARY).initialise(1).to(torch.bfloat16)
    save_model(model, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
    assert not (tmp_path / "vocab.json").exists()  # GPT-2's words are not this model's


@pytest.mark.parametrize("tokenizer", [AutoTokenizer, GPT2Tokenizer])
def test_the_saved_tokenizer_encodes_as_tiktoken(
    tmp_path: Path, tiny_folder: Path, tokenizer: Any
) -> None:
    save_model(load_model(tiny_folder), tmp_path)
    theirs = tokenizer.from_pretrained(tmp_path)
    for text in (
        "Hello, world!",
        "  two spaces\n\tand a tab ",
        "naïve café 😀 中文",
        "don't I'LL 12345",
    ):
        ids = theirs.encode(text)
        assert ids == get_tokenizer().encode(text)
        assert theirs.decode(ids) == text
    assert theirs.encode("Hello, world!") == [15496, 11, 995, 0]  # as published
    assert theirs.eos_token_id == 50256
    assert theirs.model_max_length == 1024


def test_a_config_of_another_architecture_is_refused_with_every_reason(tmp_path: Path) -> None:
    values = published_config(TINY) | {
        "activation_function": "relu",
        "layer_norm_epsilon": 1e-6,
        "scale_attn_by_inverse_layer_idx": True,
        "n_layer": 0,
        "n_head": "four",
    }
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_config(tmp_path)
    for word in ("relu", "1e-06", "scale_attn_by_inverse_layer_idx", "n_layer 0", "'four'"):
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ('{"n_embd": 32,', "no JSON .line 1, column 15"),
        ("[]", "no JSON object"),
        ("{}", "n_head: is missing"),
        (json.dumps(published_config(TINY) | {"n_head": 5}), "does not divide n_embd 32"),
        (json.dumps(published_config(TINY) | {"n_inner": 64}), "not four times n_embd"),
        (json.dumps(published_config(TINY) | {"model_type": "llama"}), "another architecture"),
    ],
)
def test_a_bad_config_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_config(tmp_path)


def test_load_model_itself_is_strict(tmp_path: Path) -> None:
    tensors = random_tensors(SMALL_VOCABULARY, 0, torch.float32)
    del tensors["h.1.mlp.c_fc.bias"]
    save_file(tensors | {"extra": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"lacks h\.1\.mlp\.c_fc\.bias[\s\S]*has not: extra"):
        load_model(tmp_path, SMALL_VOCABULARY)
