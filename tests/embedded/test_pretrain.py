"""Pretraining is exact and the same each time; the shipped weights are what they say."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from twolevers.data.batch import Row, collate
from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.embedded import NANO_PATH
from twolevers.embedded.nano import pretrain_nano
from twolevers.files import sha256_of
from twolevers.models.attention import causal_within
from twolevers.models.catalog import GPT2Config, find_model
from twolevers.models.gpt2 import GPT2
from twolevers.training.pretrain import PretrainOptions, documents_alone, pretrain
from twolevers.training.pretrain_start import prepare_to_copy

TINY = GPT2Config(emb_dim=32, num_layers=2, num_heads=2)
OPTIONS = PretrainOptions(steps=50, rows=4, block=64, echo_steps=10, warmup=10)


def test_fifty_steps_twice_give_the_same_bits(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    for name in ("one", "two"):
        torch.manual_seed(len(seen))  # nothing may depend on the global generator
        pretrain_nano(
            tmp_path / name,
            options=OPTIONS,
            config=TINY,
            survey_documents=500,
            on_step=lambda step, total, loss, rate: seen.append((step, total)),
        )
    assert seen == [(step, 50) for step in range(1, 51)] * 2
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    about = json.loads((tmp_path / "one" / "pretraining.json").read_text())
    assert about["sha256"] == sha256_of(tmp_path / "one" / "model.safetensors")
    assert about["tokens"] == 50 * 4 * 64
    assert about["last_loss"] < math.log(50_257), "no better than a guess over the vocabulary"


def test_shared_row_is_the_softmax_over_the_full_vocabulary() -> None:
    """The loss that pretraining reports is the one that the full model has."""
    config = GPT2Config(emb_dim=16, num_layers=1, num_heads=2, vocab_size=97, context_length=64)
    options = PretrainOptions(
        steps=1,
        rows=1,
        block=12,
        echo_steps=0,
        echo_share=0.0,
        max_offset=0,
        learning_rate=0.0,
        noise=0.0,
    )
    documents = [[5, 9, 11, 40, 5], [9, 11, 5, 5, 40, 9, 9], [5]]
    pretrained = pretrain(iter(documents), [5, 9, 11, 40], config, options)
    batch = collate([Row([token for document in documents for token in document])])
    attend = causal_within(batch.lengths)
    hidden = pretrained.model(batch.input_ids, batch.positions, attend)
    full = F.cross_entropy(pretrained.model.logits(hidden), batch.target_ids)
    assert pretrained.last_loss == pytest.approx(full.item(), abs=1e-5)
    assert pretrained.tokens == batch.num_tokens == 12


def test_documents_of_a_row_see_themselves_alone() -> None:
    q, k, v = torch.randn(3, 12, 2, 4, generator=torch.Generator().manual_seed(1))
    end = END_OF_TEXT
    rows = torch.tensor([[7, 8, end, 9, end, 4], [1, 2, 3, 4, 5, end]])
    options = replace(OPTIONS, max_offset=0)
    positions, attend = documents_alone(rows, options, torch.Generator())
    assert positions.tolist() == [0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5]
    torch.testing.assert_close(attend(0, q, k, v), causal_within([3, 2, 1, 6])(0, q, k, v))


def test_start_can_copy() -> None:
    """Untrained, the model already foresees random tokens told twice better the second time."""
    config = GPT2Config(emb_dim=128, num_layers=6, num_heads=4, vocab_size=500)
    model = GPT2(config).initialise(1)
    prepare_to_copy(model, seed=1)
    told = torch.randint(500, (30,), generator=torch.Generator().manual_seed(3)).repeat(2)
    with torch.no_grad():
        hidden = model(told[:-1], torch.arange(59), causal_within([59]))
        losses = F.cross_entropy(model.logits(hidden), told[1:], reduction="none")
    assert losses[32:].mean() < losses[:28].mean() - 0.2


def test_checkpoints_on_the_way(tmp_path: Path) -> None:
    steps: list[int] = []
    folder = tmp_path / "nano"
    pretrain_nano(
        folder,
        options=replace(OPTIONS, steps=4),
        config=TINY,
        survey_documents=50,
        checkpoint_steps=3,
        on_step=lambda step, total, loss, rate: steps.append(
            json.loads((folder / "pretraining.json").read_text())["steps"] if folder.exists() else 0
        ),
    )
    assert steps == [0, 0, 0, 3]
    assert json.loads((folder / "pretraining.json").read_text())["steps"] == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nano"], "nothing left beside it"


def test_shipped_weights_are_small_and_as_recorded() -> None:
    weights = NANO_PATH / "model.safetensors"
    assert weights.stat().st_size <= 16_000_000
    about = json.loads((NANO_PATH / "pretraining.json").read_text())
    assert about["sha256"] == sha256_of(weights)
    assert about["options"]["steps"] == about["steps"] == PretrainOptions().steps
    assert about["seconds"] <= 3_600
    assert about["threads"] <= 2


def test_transformers_computes_the_same() -> None:
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file

    theirs = transformers.GPT2LMHeadModel.from_pretrained(NANO_PATH, dtype=torch.float32).eval()
    config = find_model("gpt2-nano").config
    ours = GPT2(config)
    stored = load_file(NANO_PATH / "model.safetensors")
    ours.load_state_dict(
        {n: (t.T if ".c_" in n and t.dim() == 2 else t).float() for n, t in stored.items()}
    )
    ids = torch.tensor([464, 4255, 15158, 262, 16860, 13])
    with torch.no_grad():
        hidden = ours(ids, torch.arange(len(ids)), causal_within([len(ids)]))
        torch.testing.assert_close(
            ours.logits(hidden), theirs(ids[None]).logits[0], atol=1e-4, rtol=1e-4
        )
