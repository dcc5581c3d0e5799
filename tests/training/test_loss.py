"""The fast loss against the plain one, against transformers, and on odd batches."""

from __future__ import annotations

import math

import pytest
import torch
from tiny import TINY
from tiny_job import make_rows
from transformers import GPT2Config as TheirConfig
from transformers import GPT2LMHeadModel

from twolevers.data.batch import Batch, Row, collate
from twolevers.device import Device
from twolevers.models import attention
from twolevers.models.gpt2 import GPT2
from twolevers.training import loss as losses
from twolevers.training.loss import loss_sum, mean_loss, plain_loss_sum
from twolevers.training.precision import autocast

CPU = Device("cpu", "a processor", 2, 0)


@pytest.fixture
def model() -> GPT2:
    """Weights five times GPT-2's, so that the probabilities are far from uniform."""
    model = GPT2(TINY).initialise(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
    return model


@pytest.fixture
def batch() -> Batch:
    return collate([*make_rows(6), Row([5, 6, 7, 8]), Row([96, 96, 96], 2)])


def loss_and_gradients(function, model: GPT2, batch: Batch, precision: str = "float32"):
    model.zero_grad(set_to_none=True)
    with autocast(CPU, precision):
        loss = function(model, batch)
    (loss / batch.num_supervised).backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def largest_difference(ours: dict, theirs: dict) -> float:
    return max(float((ours[n] - theirs[n]).norm() / theirs[n].norm()) for n in theirs)


@pytest.mark.parametrize("tokens_a_chunk", [1, 7, 1000])
def test_equals_plain_loss_and_gradients(model, batch, tokens_a_chunk, monkeypatch):
    monkeypatch.setitem(losses.CHUNK_BYTES, "cpu", 4 * TINY.vocab_size * tokens_a_chunk)
    expected, expected_gradients = loss_and_gradients(plain_loss_sum, model, batch)
    found, gradients = loss_and_gradients(loss_sum, model, batch)
    assert found == pytest.approx(expected, rel=1e-6)
    assert largest_difference(gradients, expected_gradients) < 1e-5


@pytest.mark.parametrize("prompt_length", [0, 3, 9])
@pytest.mark.parametrize("tile_tokens", [1, 8, 1000])
def test_a_prefix_that_all_rows_share_counts_for_each(
    model, prompt_length, tile_tokens, monkeypatch
):
    """Alike up to and with token 7; the target after it differs."""
    monkeypatch.setitem(attention.TILE_TOKENS, "cpu", tile_tokens)
    prefix = [11, 12, 13, 14, 15, 16, 17]
    rows = [[*prefix, 1, 2, 3], [*prefix, 4, 5], [*prefix, 6, 7, 8, 9], [*prefix, 1, 9]]
    rows = [Row(row, min(prompt_length, len(row) - 1)) for row in rows]
    batch, shared = collate(rows), collate(rows, share_prefix=True)
    assert shared.prefix == (7 if prompt_length == 9 else 6)  # masked, targets are alike
    assert len(shared.input_ids) == len(batch.input_ids) - 3 * shared.prefix
    assert (shared.num_tokens, shared.num_supervised) == (batch.num_tokens, batch.num_supervised)
    expected, expected_gradients = loss_and_gradients(plain_loss_sum, model, batch)
    found, gradients = loss_and_gradients(loss_sum, model, shared)
    assert found == pytest.approx(expected, rel=1e-6)
    assert largest_difference(gradients, expected_gradients) < 1e-5


def test_rows_alike_from_end_to_end(model):
    batch = collate([Row([1, 2, 3, 4])] * 3, share_prefix=True)
    alone = collate([Row([1, 2, 3, 4])])
    assert (batch.prefix, batch.lengths, batch.num_tokens) == (3, (0, 0, 0), 9)
    assert mean_loss(model, [batch]) == pytest.approx(mean_loss(model, [alone]))


def test_dropout_differs_by_row_so_nothing_is_shared(job):
    """Each row's own dropout: a step of rows all alike has no shared prefix."""
    trainer_batches = []
    from twolevers.training import trainer

    real = trainer.optimizer_step

    def optimizer_step(model, optimizer, scaler, batches, **kw):
        trainer_batches.extend(batches)
        return real(model, optimizer, scaler, batches, **kw)

    job.train_rows = [Row([1, 2, 3, 4, 5])] * 16
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "optimizer_step", optimizer_step)
        job.train(epochs=1, dropout=0.1)
    assert {batch.prefix for batch in trainer_batches} == {0}


@pytest.mark.parametrize("rows_a_block", [10, 4096])
def test_bfloat16_is_as_near_to_float32_as_plain_autocast(model, batch, rows_a_block, monkeypatch):
    monkeypatch.setattr(losses, "_BLOCK_ROWS", rows_a_block)
    _, exact = loss_and_gradients(plain_loss_sum, model, batch)
    plain, plain_gradients = loss_and_gradients(plain_loss_sum, model, batch, "bfloat16")
    fast, gradients = loss_and_gradients(loss_sum, model, batch, "bfloat16")
    assert fast == pytest.approx(plain, rel=2e-3)
    assert largest_difference(gradients, exact) < 1.1 * largest_difference(plain_gradients, exact)
    assert all(gradient.dtype == torch.float32 for gradient in gradients.values())


def test_gradients_add_up_over_two_backward_calls(model, batch):
    _, once = loss_and_gradients(loss_sum, model, batch)
    model.zero_grad()
    for _ in range(2):
        (loss_sum(model, batch) / batch.num_supervised).backward()
    twice = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert largest_difference({n: g / 2 for n, g in twice.items()}, once) < 1e-6


def test_two_losses_open_at_once_do_not_mix(model, batch):
    other = collate(make_rows(3, seed=9))
    first, second = loss_sum(model, batch), loss_sum(model, other)
    model.zero_grad()
    second.backward()
    after_second = model.wte.weight.grad.clone()
    first.backward()
    model_gradient = model.wte.weight.grad.clone()
    model.zero_grad()
    (plain_loss_sum(model, batch) + plain_loss_sum(model, other)).backward()
    assert largest_difference({"": model_gradient}, {"": model.wte.weight.grad}) < 1e-5
    model.zero_grad()
    plain_loss_sum(model, other).backward()
    assert largest_difference({"": after_second}, {"": model.wte.weight.grad}) < 1e-5


def test_very_unlikely_targets_have_a_finite_loss(model):
    """The target's probability is zero in float32: log(0) must not be taken."""
    batch = collate([Row([3, 4, 5, 6, 7])])
    with torch.no_grad():
        model.ln_f.weight.mul_(100)
    expected, expected_gradients = loss_and_gradients(plain_loss_sum, model, batch)
    found, gradients = loss_and_gradients(loss_sum, model, batch)
    assert expected / batch.num_supervised > 110
    assert found == pytest.approx(expected, rel=1e-6)
    assert largest_difference(gradients, expected_gradients) < 1e-5


def test_training_and_validation_loss_of_a_batch_are_one_number(model, batch):
    train = loss_sum(model, batch).item() / batch.num_supervised
    assert mean_loss(model, [batch]) == train


def test_mean_loss_counts_every_token_the_same(model):
    short, long = collate([Row([1, 2])]), collate(make_rows(4))
    together = mean_loss(model, [short, long])
    parts = [(mean_loss(model, [b]), b.num_supervised) for b in (short, long)]
    tokens = short.num_supervised + long.num_supervised
    assert together == pytest.approx(sum(loss * n for loss, n in parts) / tokens, rel=1e-6)


def test_mean_loss_leaves_the_model_training_and_switches_dropout_off(batch):
    config = type(TINY)(**{**TINY.to_dict(), "dropout": 0.5})
    model = GPT2(config).initialise(1).train()
    assert mean_loss(model, [batch]) == mean_loss(model, [batch])
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_evaluation_does_no_gradient_work(model, batch, monkeypatch):
    wanted = []
    real = losses._walk
    monkeypatch.setattr(
        losses,
        "_walk",
        lambda *args, **kw: wanted.append(args[-1]) or real(*args, **kw),
    )
    mean_loss(model, [batch])
    loss_sum(model, batch).backward()
    assert wanted == [False, True]


def test_a_second_backward_is_refused_not_wrong(model, batch):
    loss = loss_sum(model, batch)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="taken already"):
        loss.backward()


def test_no_supervised_token_is_no_number(model):
    assert math.isnan(mean_loss(model, [collate([Row([1, 2, 3], 3)])]))


def test_equals_padded_transformers(model, tmp_path):
    """Padding with the end-of-text token (96 here), masked by position: trl issue 1623."""
    from twolevers.models.weights import save_model

    save_model(model, tmp_path)
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    assert isinstance(theirs.config, TheirConfig)
    rows = [[*row.token_ids, 96] for row in make_rows(5)]
    longest = max(len(row) for row in rows)
    padded = torch.tensor([row + [96] * (longest - len(row)) for row in rows])
    labels = torch.tensor([row + [-100] * (longest - len(row)) for row in rows])
    with torch.no_grad():
        expected = theirs(input_ids=padded, labels=labels).loss.item()
    assert mean_loss(model, [collate([Row(row) for row in rows])]) == pytest.approx(expected, 1e-5)
