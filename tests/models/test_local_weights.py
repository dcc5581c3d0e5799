"""Weights of the user's own, and those that ship: accepted, or refused with every reason."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers import TINY, published_config, random_tensors, write_random_weights
from safetensors.torch import save_file

from twolevers import embedded
from twolevers.errors import FetchError, InputError
from twolevers.files import sha256_of
from twolevers.models.catalog import MODELS, GPT2Config, ModelEntry
from twolevers.models.fetch import fetch_weights
from twolevers.models.weights import load_model, save_model
from twolevers.progress import Silent
from twolevers.records import WeightsFolder
from twolevers.settings import Home

CONFIG = GPT2Config(emb_dim=24, num_layers=2, num_heads=2, vocab_size=90)


@pytest.fixture(autouse=True)
def narrow_small(monkeypatch: pytest.MonkeyPatch, tiny_small: ModelEntry) -> None:
    monkeypatch.setitem(MODELS, tiny_small.name, replace(tiny_small, config=CONFIG))


def fetch(weights: str | Path, home: Home) -> WeightsFolder:
    return fetch_weights("gpt2-small", str(weights), home, Silent())


def refusal(weights: str | Path, home: Home) -> str:
    with pytest.raises(InputError) as error:
        fetch(weights, home)
    return str(error.value)


def write_tensors(folder: Path, **changes: torch.Tensor | None) -> Path:
    """Random weights with tensors changed, added or (None) left out; `__` stands for a dot."""
    tensors = random_tensors(CONFIG, 0, torch.float32)
    for word, tensor in changes.items():
        name = word.replace("__", ".")
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_a_folder_a_file_and_shards(tmp_path: Path, home: Home) -> None:
    folder = write_random_weights(tmp_path / "mine", CONFIG, prefix="transformer.")
    fetched = fetch(folder, home)
    digest = sha256_of(folder / "model.safetensors")
    assert (fetched.path, fetched.sha256) == (folder, digest)
    assert (fetched.source, fetched.verified) == ("local", "local file")
    assert fetched.model == "gpt2-small (124M)"
    assert fetch(folder / "model.safetensors", home).sha256 == digest
    shards = fetch(write_random_weights(tmp_path / "shards", CONFIG, shards=2), home)
    index = tmp_path / "shards" / "model.safetensors.index.json"
    assert fetch(index, home).sha256 == shards.sha256
    assert len(shards.sha256) == 64
    for record in (fetched, shards):
        load_model(record.path, CONFIG)


def test_what_we_saved_comes_back_in(tmp_path: Path, home: Home) -> None:
    digest = save_model(load_model(write_random_weights(tmp_path / "a", CONFIG)), tmp_path)
    assert fetch(tmp_path, home).sha256 == digest


def test_a_tilde_is_the_users_home(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_random_weights(tmp_path / "mine", CONFIG)
    assert fetch("~/mine", home).path == tmp_path / "mine"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("", "is no path"),
        ("nowhere", "does not exist; give a folder with model.safetensors"),
        ("https://huggingface.co/gpt2", "is an address, not a path"),
        ("openai-community/gpt2-xl", "choose --model gpt2-xl without --weights"),
        ("gpt2-medium", "choose --model gpt2-medium without --weights"),
        ("bad\0path", "is no path"),
        ("~nobody-of-this-name/x", "names no user here"),
    ],
)
def test_no_such_weights(weights: str, message: str, home: Home) -> None:
    assert message in refusal(weights, home)


def test_a_folder_without_safetensors(tmp_path: Path, home: Home) -> None:
    assert "holds no model.safetensors" in refusal(tmp_path, home)
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    message = refusal(tmp_path, home)
    assert "pickle files are never read" in message
    assert "save_pretrained" in message
    assert "pickle files are never read" in refusal(tmp_path / "pytorch_model.bin", home)
    (tmp_path / "gpt2.safetensors").write_bytes(b"")
    assert f"give the file itself: {tmp_path / 'gpt2.safetensors'}" in refusal(tmp_path, home)


@pytest.mark.parametrize("keep", [0, 5, 400, -1])
def test_a_file_cut_short(tmp_path: Path, home: Home, keep: int) -> None:
    file = write_random_weights(tmp_path, CONFIG) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert "is no whole safetensors file" in refusal(tmp_path, home)


def test_shards_that_do_not_fit_their_index(tmp_path: Path, home: Home) -> None:
    folder = write_random_weights(tmp_path / "shards", CONFIG, shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    assert "names model-00002-of-00003.safetensors, not in its folder" in refusal(folder, home)
    index = folder / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"wte.weight": "../../secret.safetensors"}}', encoding="utf-8")
    assert "not in its folder" in refusal(folder, home)
    index.write_text('{"weights": 3}', encoding="utf-8")
    assert "is no index of shards" in refusal(folder, home)


def test_all_differences_in_one_error(tmp_path: Path, home: Home) -> None:
    folder = write_tensors(
        tmp_path,
        h__0__ln_1__bias=None,
        wpe__weight=torch.zeros(512, 24),
        wte__weight=torch.zeros(90, 24, dtype=torch.int32),
        h__7__ln_1__bias=torch.zeros(24),
        score__weight=torch.zeros(2, 24),
    )
    (folder / "config.json").write_text(json.dumps(published_config(CONFIG) | {"n_head": 3}))
    message = refusal(folder, home)
    assert "lacks h.0.ln_1.bias" in message
    assert "holds what the model has not: h.7.ln_1.bias, score.weight" in message
    assert "wpe.weight (512, 24) instead of (1024, 24)" in message
    assert "wte.weight (I32)" in message
    assert "num_heads 3: is 2 in gpt2-small (124M)" in message


def test_hundreds_of_differences_are_counted(tmp_path: Path, home: Home) -> None:
    deep = replace(CONFIG, num_layers=40, vocab_size=91)
    message = refusal(write_random_weights(tmp_path, deep), home)
    assert "and 453 more" in message  # 38 layers of 12 tensors, three of them shown
    assert len(message) < 1500


def test_another_models_weights_name_that_model(tmp_path: Path, home: Home) -> None:
    other = replace(MODELS["gpt2-medium (355M)"], config=replace(CONFIG, num_layers=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, other.name, other)
        message = refusal(write_random_weights(tmp_path, other.config), home)
    assert "choose --model gpt2-medium" in message


@pytest.mark.parametrize(
    "change",
    [
        {"n_head": 4},
        {"activation_function": "gelu"},
        {"layer_norm_epsilon": 1e-12},
        {"scale_attn_by_inverse_layer_idx": True},
        {"tie_word_embeddings": False},
    ],
)
def test_a_config_under_which_equal_shapes_mean_something_else(
    tmp_path: Path, home: Home, change: dict[str, object]
) -> None:
    folder = write_random_weights(tmp_path, CONFIG)
    (folder / "config.json").write_text(json.dumps(published_config(CONFIG) | change))
    assert str(next(iter(change.values()))) in refusal(folder, home)
    (folder / "config.json").unlink()
    fetch(folder, home)


def test_an_output_layer_of_its_own_is_refused(tmp_path: Path, home: Home) -> None:
    embedding = random_tensors(CONFIG, 0, torch.float32)["wte.weight"]
    fetch(write_tensors(tmp_path / "tied", lm_head__weight=embedding.clone()), home)
    other = write_tensors(tmp_path / "own", lm_head__weight=embedding + 1e-3)
    assert "has an output layer (lm_head.weight) of its own" in refusal(other, home)


def test_an_output_layer_under_a_prefix_is_looked_at_too(tmp_path: Path, home: Home) -> None:
    other = torch.ones(90, 24)
    folder = write_tensors(tmp_path, transformer__lm_head__weight=other)
    assert "has an output layer" in refusal(folder, home)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers(
    tmp_path: Path, home: Home, value: float, dtype: torch.dtype
) -> None:
    bias = torch.zeros(24, dtype=dtype)
    bias[5] = value
    folder = write_tensors(tmp_path, h__1__ln_2__bias=bias)
    for _ in range(2):  # nothing remembers a bad file as a good one
        assert "holds NaN or infinity in h.1.ln_2.bias" in refusal(folder, home)


def test_a_file_that_changes_is_hashed_again(tmp_path: Path, home: Home) -> None:
    first = fetch(write_random_weights(tmp_path, CONFIG, seed=0), home)
    assert fetch(tmp_path, home) == first
    second = fetch(write_random_weights(tmp_path, CONFIG, seed=1), home)
    assert second.sha256 == sha256_of(tmp_path / "model.safetensors") != first.sha256


def test_the_hash_of_an_unchanged_file_is_remembered(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch(write_random_weights(tmp_path, CONFIG), home)
    monkeypatch.setattr("twolevers.models.known_hashes.sha256_of", lambda path: "never")
    monkeypatch.setattr("twolevers.models.fetch.not_finite", lambda tensors: list(tensors))
    assert fetch(tmp_path, home) == first
    for record in (home.cache / "hashes").iterdir():
        record.write_text("{broken", encoding="utf-8")
    monkeypatch.setattr("twolevers.models.known_hashes.sha256_of", sha256_of)
    monkeypatch.setattr("twolevers.models.fetch.not_finite", lambda tensors: [])
    assert fetch(tmp_path, home) == first


def test_nano_comes_from_the_package(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    nano = next(entry for entry in MODELS.values() if entry.repo is None)
    monkeypatch.setitem(MODELS, nano.name, replace(nano, config=TINY))
    monkeypatch.setattr(embedded, "NANO_PATH", tmp_path / "nano")
    with pytest.raises(FetchError, match="install twolevers again"):
        fetch_weights("gpt2-nano", None, home, Silent())
    write_random_weights(tmp_path / "nano", TINY, dtype=torch.float16)
    fetched = fetch_weights("gpt2-nano", None, home, Silent())
    assert fetched.path == tmp_path / "nano"
    assert (fetched.source, fetched.verified) == ("shipped", "shipped")
    assert fetched.sha256 == sha256_of(tmp_path / "nano" / "model.safetensors")
    write_random_weights(tmp_path / "nano", CONFIG)
    with pytest.raises(FetchError, match=r"wte.weight \(90, 24\) instead of"):
        fetch_weights("gpt2-nano", None, home, Silent())
