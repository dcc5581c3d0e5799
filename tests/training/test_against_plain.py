"""The fast path against the plain one of `benchmarks/plain.py`, which shares no code with it."""

from __future__ import annotations

import pytest
import torch
from helpers import random_tensors
from safetensors.torch import save_file
from tiny import TINY
from tiny_job import CPU, make_rows
from transformers import GPT2LMHeadModel

from benchmarks import plain
from twolevers.data.batch import Row, collate
from twolevers.files import write_json
from twolevers.generation.generate import generate
from twolevers.models.gpt2 import GPT2
from twolevers.models.layout import hf_config
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions, TrainingOptions
from twolevers.training.evaluate import joined_batches
from twolevers.training.loss import loss_sum, mean_loss
from twolevers.training.optimizer import make_optimizer, total_norm
from twolevers.training.precision import gradient_scaler
from twolevers.training.step import optimizer_step

PREAMBLE = [11, 12, 13, 14, 15, 16, 17, 18]
RATE = 1e-3


@pytest.fixture
def folder(tmp_path):
    save_file(random_tensors(TINY, 3, torch.float32), tmp_path / "model.safetensors")
    write_json(tmp_path / "config.json", hf_config(TINY))
    return tmp_path


@pytest.fixture
def ours(folder) -> GPT2:
    return load_model(folder).train()


def plain_model(tied: bool = False) -> plain.PlainGPT2:
    sizes = {"vocab_size": TINY.vocab_size, "context_length": TINY.context_length}
    model = plain.PlainGPT2(TINY.emb_dim, TINY.num_layers, TINY.num_heads, **sizes, tied=tied)
    return model.load_published(random_tensors(TINY, 3, torch.float32))


@pytest.fixture
def rows(monkeypatch) -> list[Row]:
    """Rows that begin alike, as a prompt style's do, and end apart."""
    monkeypatch.setattr(plain, "PAD_ID", 96)
    return [Row([*PREAMBLE, *row.token_ids]) for row in make_rows(24, seed=5)]


def padded(rows: list[Row]):
    return plain.pad([list(row.token_ids) for row in rows])


def test_the_plain_model_is_gpt2(folder):
    theirs = GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.tensor([list(row.token_ids)[:3] for row in make_rows(4)])
    torch.testing.assert_close(plain_model()(ids), theirs(ids).logits, atol=1e-5, rtol=1e-4)


def test_gradients_are_autograds_on_the_plain_model(ours, rows):
    """To 1e-5 of each parameter's norm; what the chapter holds apart is joined as ours has it."""
    model, batch = plain_model(), collate(rows[:8], share_prefix=True)
    assert batch.prefix > 0
    loss = plain.batch_loss(model, *padded(rows[:8]))
    loss.backward()
    found = loss_sum(ours, batch, divisor=batch.num_supervised)
    found.backward()
    assert found.item() == pytest.approx(loss.item(), rel=1e-6)

    expected = {
        "wte.weight": model.token_embedding.weight.grad + model.head.weight.grad,
        "wpe.weight": model.position_embedding.weight.grad,
        "ln_f.weight": model.final_norm.scale.grad,
        "ln_f.bias": model.final_norm.shift.grad,
    }
    for i, block in enumerate(model.blocks):
        attention, (widen, _, narrow) = block.attention, block.feed_forward
        parts = (attention.query, attention.key, attention.value)
        for kind in ("weight", "bias"):
            joined = torch.cat([getattr(part, kind).grad for part in parts])
            expected[f"h.{i}.attn.c_attn.{kind}"] = joined
            layers = (("attn.c_proj", attention.out), ("mlp.c_fc", widen), ("mlp.c_proj", narrow))
            for name, layer in layers:
                expected[f"h.{i}.{name}.{kind}"] = getattr(layer, kind).grad
        for name, norm in (("ln_1", block.norm_1), ("ln_2", block.norm_2)):
            expected[f"h.{i}.{name}.weight"] = norm.scale.grad
            expected[f"h.{i}.{name}.bias"] = norm.shift.grad
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        error = (gradient - expected[name]).norm() / expected[name].norm()
        assert error < 1e-5, name


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("bfloat16", 0.01)])
def test_it_learns_what_the_plain_loop_learns(ours, rows, precision, tolerance):
    """Two epochs of eight steps, the same batches: the validation losses afterwards."""
    train, val = rows[:16], rows[16:]
    model = plain_model(tied=True)
    theirs = plain.make_optimizer(model, RATE)
    optimizer = make_optimizer(ours, TrainingOptions(learning_rate=RATE))
    before = mean_loss(ours, joined_batches(val, range(8)))
    for batch in [train[start : start + 2] for start in range(0, 16, 2)] * 2:
        expected = plain.step(model, theirs, *padded(batch))
        figures = optimizer_step(
            ours,
            optimizer,
            gradient_scaler(CPU, precision),
            [collate(batch, share_prefix=True)],
            learning_rate=RATE,
            gradient_clip=None,
            device=CPU,
            precision=precision,
        )
        assert figures.loss == pytest.approx(expected, rel=tolerance)
    val_loss = mean_loss(ours, joined_batches(val, range(8)))
    in_plain = plain.validation_loss(model, [padded(val)], mean_of_batches=False)
    assert val_loss == pytest.approx(in_plain, rel=tolerance)
    assert val_loss < 0.95 * before


def test_generation_gives_what_reading_everything_again_gives(ours, rows):
    prompts = [list(row.token_ids)[: 9 + i] for i, row in enumerate(rows[:6])]
    options = GenerationOptions(max_new_tokens=12, generation_batch_size=4)
    model = plain_model().eval()
    expected = [plain.generate(model, prompt, 12) for prompt in prompts]
    assert generate(ours, prompts, options, stop_id=None) == expected


def test_the_norm_of_all_gradients():
    generator = torch.Generator().manual_seed(1)
    gradients = [torch.randn(shape, generator=generator) for shape in ((7,), (300, 40), (1, 1))]
    exact = torch.cat([g.double().flatten() for g in gradients]).norm()
    assert total_norm(gradients).item() == pytest.approx(exact.item(), rel=1e-6)
