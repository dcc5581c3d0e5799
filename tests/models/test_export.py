"""Exported models: read back by the programs that they are for."""

from __future__ import annotations

import errno
import json
import re
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import TINY, random_tensors, write_random_weights

from twolevers.data.tokenizer import get_tokenizer
from twolevers.errors import InputError, TwoleversError
from twolevers.generation.generate import generate
from twolevers.models import export as export_module
from twolevers.models.catalog import GPT2Config
from twolevers.models.export import export_model
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions

TEXT = "Grüße,  world: <|endoftext|> 😀\n\n### Response:\n"
END_OF_TEXT = 50256


@pytest.fixture
def checkpoint(tiny_folder: Path) -> Path:
    return tiny_folder


def test_transformers_loads_the_folder_and_answers_the_same(
    checkpoint: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / "exported"
    export_model(checkpoint, "hf", folder, name="tiny")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(TEXT.replace("<|endoftext|>", ""))["input_ids"]
    assert ids == get_tokenizer().encode(TEXT.replace("<|endoftext|>", ""))
    assert tokenizer.eos_token_id == END_OF_TEXT
    model = AutoModelForCausalLM.from_pretrained(folder)
    theirs = model.generate(
        torch.tensor([ids]), max_new_tokens=20, do_sample=False, pad_token_id=END_OF_TEXT
    )
    options = GenerationOptions(max_new_tokens=20)
    [ours] = generate(load_model(checkpoint).eval(), [ids], options, seed=1)
    # Random weights end no answer, and generate gives what is new.
    assert theirs[0, len(ids) :].tolist() == list(ours)
    assert not list(tmp_path.glob(".*")), "nothing half-written lies about"


def field(reader: Any, name: str) -> Any:
    """A value; texts of a list are read at once, which the package does slowly."""
    found = reader.get_field(name)
    if len(found.data) > 1 and found.types[-1].name == "STRING":
        return [bytes(found.parts[i]).decode("utf-8") for i in found.data]
    return found.contents()


def test_the_gguf_file_holds_the_same_numbers_and_vocabulary(
    checkpoint: Path, tmp_path: Path
) -> None:
    from gguf import GGUFReader, TokenType

    file = tmp_path / "tiny.gguf"
    export_model(checkpoint, "gguf", file, name="tiny fine-tuned")
    reader = GGUFReader(file)
    assert {
        name: field(reader, name)
        for name in reader.fields
        if name.startswith(("general.", "gpt2.")) or name.endswith("_token_id")
    } == {
        "general.architecture": "gpt2",
        "general.name": "tiny fine-tuned",
        "general.file_type": 0,
        "general.quantization_version": 2,
        "gpt2.block_count": 2,
        "gpt2.context_length": 1024,
        "gpt2.embedding_length": 32,
        "gpt2.feed_forward_length": 128,
        "gpt2.attention.head_count": 4,
        "gpt2.attention.layer_norm_epsilon": pytest.approx(1e-5),
        "tokenizer.ggml.bos_token_id": END_OF_TEXT,
        "tokenizer.ggml.eos_token_id": END_OF_TEXT,
        "tokenizer.ggml.unknown_token_id": END_OF_TEXT,
    }
    published = random_tensors(TINY, seed=0, dtype=torch.float32)
    blocks = {
        "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj",
        "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
    }  # fmt: skip
    names = {"token_embd.weight": "wte.weight", "position_embd.weight": "wpe.weight"}
    names |= {f"output_norm.{part}": f"ln_f.{part}" for part in ("weight", "bias")}
    names |= {
        f"blk.{layer}.{theirs}.{part}": f"h.{layer}.{ours}.{part}"
        for layer in range(2)
        for theirs, ours in blocks.items()
        for part in ("weight", "bias")
    }
    assert {tensor.name for tensor in reader.tensors} == {*names}
    for tensor in reader.tensors:
        wanted = published[names[tensor.name]].numpy()
        # Published as (in, out); GGUF wants (out, in).
        projection = any(
            mark in names[tensor.name] for mark in (".c_attn.w", ".c_proj.w", ".c_fc.w")
        )
        assert np.array_equal(tensor.data, wanted.T if projection else wanted), tensor.name

    assert field(reader, "tokenizer.ggml.model") == "gpt2"
    assert field(reader, "tokenizer.ggml.pre") == "gpt-2"
    assert field(reader, "tokenizer.ggml.add_bos_token") is False
    tokens = field(reader, "tokenizer.ggml.tokens")
    vocabulary = json.loads((folder_of_vocabulary(checkpoint, tmp_path) / "vocab.json").read_text())
    assert {token: number for number, token in enumerate(tokens)} == vocabulary
    types = field(reader, "tokenizer.ggml.token_type")
    assert types == [TokenType.NORMAL] * 50256 + [TokenType.CONTROL]
    merges = field(reader, "tokenizer.ggml.merges")
    assert len(merges) == 50_000
    assert (merges[0], merges[-1]) == ("Ġ t", "Ġg azed")


def folder_of_vocabulary(checkpoint: Path, tmp_path: Path) -> Path:
    export_model(checkpoint, "hf", tmp_path / "vocabulary", name="tiny")
    return tmp_path / "vocabulary"


@pytest.mark.parametrize("form", ["hf", "gguf"])
def test_what_is_there_is_replaced_only_by_force(
    checkpoint: Path, tmp_path: Path, form: str
) -> None:
    output = tmp_path / "out"
    export_model(checkpoint, form, output, name="one")
    inside = output / "notes.txt" if form == "hf" else output
    inside.write_bytes(b"GGUF of mine")
    with pytest.raises(InputError, match="is there already; name another, or add --force"):
        export_model(checkpoint, form, output, name="two")
    assert inside.read_bytes() == b"GGUF of mine"
    export_model(checkpoint, form, output, name="two", force=True)
    assert not inside.exists() or inside.read_bytes().startswith(b"GGUF\x03")


def test_force_takes_nothing_else_away(checkpoint: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("mine")
    for form in ("hf", "gguf"):
        with pytest.raises(InputError, match="is there already and is not"):
            export_model(checkpoint, form, home, name="x", force=True)
    with pytest.raises(InputError, match="is there already and is not"):
        export_model(checkpoint, "gguf", home / "letter.txt", name="x", force=True)
    with pytest.raises(InputError, match="is the checkpoint itself"):
        export_model(checkpoint, "hf", checkpoint, name="x", force=True)
    assert (home / "letter.txt").read_text() == "mine"


def test_force_does_not_take_the_checkpoint_away(checkpoint: Path, tmp_path: Path) -> None:
    export_model(checkpoint, "hf", tmp_path / "outer", name="x")
    export_model(checkpoint, "hf", tmp_path / "outer" / "inner", name="x")
    (tmp_path / "link").symlink_to(tmp_path / "outer" / "inner")
    with pytest.raises(InputError, match="holds the checkpoint; name another"):
        export_model(tmp_path / "link", "hf", tmp_path / "outer", name="x", force=True)
    assert load_model(tmp_path / "outer" / "inner").config == TINY


def test_a_place_with_any_name(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mein Modell 翻译"
    export_model(checkpoint, "gguf", folder / "a b.gguf", name="Grüße 😀")
    export_model(checkpoint, "hf", folder / "hf", name="x")
    assert sorted(path.name for path in folder.iterdir()) == ["a b.gguf", "hf"]


@pytest.mark.parametrize("form", ["hf", "gguf"])
def test_a_place_that_cannot_even_be_looked_at(checkpoint: Path, tmp_path: Path, form: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for output in (tmp_path / ("x" * 300), tmp_path / ("x" * 250), tmp_path / "loop" / "x"):
        with pytest.raises(InputError, match=r"--output .* cannot be written"):
            export_model(checkpoint, form, output, name="x")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


def test_an_unknown_format_and_a_place_that_cannot_be(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such format \(did you mean 'gguf'\?\)"):
        export_model(checkpoint, "ggfu", tmp_path / "x", name="x")
    (tmp_path / "file").write_text("")
    for form in ("hf", "gguf"):
        with pytest.raises(InputError, match=r"--output .* cannot be written"):
            export_model(checkpoint, form, tmp_path / "file" / "x", name="x")


def test_without_the_package_a_line_says_so(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(TwoleversError, match=r"gguf.* is not installed.*twolevers\[export\]"):
        export_model(checkpoint, "gguf", tmp_path / "x", name="x")
    assert not list(tmp_path.iterdir())


def test_no_half_of_it_is_left(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(export_module, "_add_vocabulary", full)
    monkeypatch.setattr(export_module, "save_model", full)
    for form in ("gguf", "hf"):
        with pytest.raises(OSError, match="No space left"):
            export_model(checkpoint, form, tmp_path / "x", name="x")
    assert not list(tmp_path.iterdir())


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    config = GPT2Config(emb_dim=8, num_layers=1, num_heads=2, vocab_size=300, context_length=16)
    folder = write_random_weights(tmp_path / "small", config)
    with pytest.raises(InputError, match="has 300 tokens, where GPT-2 has 50,257"):
        export_model(folder, "gguf", tmp_path / "x", name="x")


@pytest.mark.parametrize("form", ["hf", "gguf"])
def test_a_file_that_may_not_grow_leaves_nothing(
    checkpoint: Path, tmp_path: Path, form: str
) -> None:
    """The system's own refusal in the middle of the weights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5 * 2**20, hard))
    try:
        with pytest.raises((OSError, TwoleversError)) as full:
            export_model(checkpoint, form, tmp_path / "x", name="x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    if isinstance(full.value, OSError):  # the command says it as the other
        assert full.value.errno == errno.EFBIG
        assert full.value.filename == str(tmp_path / "x")
    else:
        assert f"There is no room for {tmp_path / 'x'}" in str(full.value)
        assert re.search(r"\(\d+ requested and \d+ written\)", str(full.value))
    assert not list(tmp_path.iterdir())
