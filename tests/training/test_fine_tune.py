"""A whole training call: what it logs, keeps and returns."""

from __future__ import annotations

import math
import re

import pytest
import torch
from tiny import TINY
from tiny_job import make_rows
from transformers import AutoModelForCausalLM

from twolevers.data.batch import Row, collate
from twolevers.errors import InputError, TrainingError
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model, save_model
from twolevers.training import checkpoint as checkpoint_module
from twolevers.training.loss import mean_loss


def test_two_epochs_learn_and_say_what_they_did(job):
    result = job.train()
    assert (result.steps, result.epochs, result.resumed) == (22, 2, False)
    assert result.val_loss_before == pytest.approx(math.log(97), abs=0.1)
    assert result.val_loss_after < 0.6 * result.val_loss_before
    assert result.train_loss_after < 0.6 * result.train_loss_before
    assert result.two_epoch_seconds == result.train_seconds > 0
    parts = result.step_seconds + result.eval_seconds
    assert 0.5 * result.train_seconds < parts <= result.train_seconds
    assert result.tokens == 2 * sum(len(row.token_ids) - 1 for row in job.train_rows)
    assert result.tokens_per_second == pytest.approx(result.tokens / result.step_seconds)
    assert result.peak_memory_bytes > 50 * 2**20
    assert job.progress.finished


def test_metrics_have_the_chapters_cadence(job):
    result = job.train()
    loss, val = job.tracker.values("train/loss"), job.tracker.values("val/loss")
    assert list(loss) == list(range(22))
    assert list(val) == [0, 5, 10, 15, 20, 21]
    assert list(job.tracker.values("val/epoch_loss")) == [10, 21]
    assert val[21] == result.val_loss_after
    assert job.tracker.values("train/eval_loss")[21] == result.train_loss_after
    assert set(job.tracker.values("train/lr").values()) == {1e-2}
    assert all(norm > 0 for norm in job.tracker.values("train/grad_norm").values())
    assert job.tracker.metrics[-1][1] == result.tokens
    assert job.progress.notes[0].startswith("before training: train 4.")
    assert re.fullmatch(r"step 5: train \d\.\d{3}, val \d\.\d{3}", job.progress.notes[2])


def test_the_first_loss_is_that_of_the_base_weights_on_the_first_batch(job):
    from twolevers.data.order import batch_order

    job.train(epochs=1)
    first = batch_order(44, 4, seed=123, epoch=0, drop_last=True)[0]
    base = load_model(job.weights)
    expected = mean_loss(base, [collate([job.train_rows[i] for i in first])])
    assert job.tracker.values("train/loss")[0] == pytest.approx(expected, rel=1e-6)


def test_same_seed_same_bits_another_seed_others(new_job):
    one, two, other = new_job(), new_job(), new_job()
    hashes = [one.train(dropout=0.2).sha256, two.train(dropout=0.2).sha256]
    assert hashes[0] == hashes[1] != other.train(dropout=0.2, seed=5).sha256
    assert one.tracker.values("train/loss") == two.tracker.values("train/loss")


def test_the_callers_random_numbers_neither_matter_nor_move(new_job):
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    one = new_job().train(dropout=0.2, epochs=1)
    assert torch.equal(torch.rand(1), expected)
    assert one.sha256 == new_job().train(dropout=0.2, epochs=1).sha256


def test_short_batches_are_dropped_or_kept(new_job):
    assert new_job(train_rows=make_rows(11)).train(epochs=1).steps == 2
    assert new_job(train_rows=make_rows(11)).train(epochs=1, drop_last=False).steps == 3


def test_accumulation_makes_a_smaller_last_step(job):
    """11 batches an epoch, 4 a step: 4 + 4 + 3."""
    assert job.train(epochs=1, gradient_accumulation_steps=4).steps == 3
    tokens = [tokens for _, tokens, metrics in job.tracker.metrics if "train/loss" in metrics]
    assert tokens[-1] == sum(len(row.token_ids) - 1 for row in job.train_rows)


def test_accumulated_batches_train_like_one_large_batch(new_job):
    small, large = new_job(), new_job()
    small.train(batch_size=2, gradient_accumulation_steps=4, epochs=1, learning_rate=1e-3)
    large.train(batch_size=8, epochs=1, learning_rate=1e-3)
    ours, theirs = small.tracker.values("train/loss"), large.tracker.values("train/loss")
    assert list(theirs.values()) == pytest.approx([ours[step] for step in theirs], abs=2e-4)


def test_gradient_checkpointing_gives_the_same_weights(new_job):
    plain = new_job().train(epochs=1, dropout=0.1)
    assert (
        new_job().train(epochs=1, dropout=0.1, gradient_checkpointing=True).sha256 == plain.sha256
    )


def test_transformers_loads_the_checkpoint_and_gives_the_same_logits(job):
    result = job.train(epochs=1)
    ids = torch.tensor([list(job.val_rows[0].token_ids)])
    theirs = AutoModelForCausalLM.from_pretrained(result.checkpoint).eval()
    expected = theirs(ids).logits[0]
    from twolevers.models.attention import causal_within

    ours = load_model(result.checkpoint).eval()
    length = ids.shape[1]
    found = ours.logits(ours(ids[0], torch.arange(length), causal_within([length])))
    assert torch.allclose(found, expected, atol=1e-4)
    rows = make_rows(3, seed=4)
    assert mean_loss(ours, [collate(rows)]) < 4.3


def test_a_loss_that_is_no_number_keeps_the_last_checkpoint(job):
    """nanoGPT issue 210. Steps 0 to 10 are the first epoch; the rate then is absurd."""
    options = {"learning_rate": 1e-2, "epochs": 1}
    job.train(**options, stop_after=None)
    base = GPT2(TINY).initialise(1)
    with torch.no_grad():
        base.wpe.weight.fill_(float("nan"))
    folder = job.root / "broken"
    folder.mkdir()
    save_model(base, folder)
    job.weights, job.root = folder, job.root / "other"
    with pytest.raises(
        TrainingError, match=r"loss is nan at step 0 .*0\.01.*lower --learning-rate"
    ):
        job.train(**options)
    assert not job.checkpoints.exists()


def test_divergence_in_mid_run_names_the_kept_checkpoint(job, monkeypatch):
    from twolevers.training import step

    real, seen = step.loss_sum, []

    def loss_sum(model, batch, **kwargs):
        seen.append(batch)
        return real(model, batch, **kwargs) * (float("nan") if len(seen) == 14 else 1.0)

    monkeypatch.setattr(step, "loss_sum", loss_sum)
    with pytest.raises(TrainingError, match=r"at step 13 .*kept: .*checkpoints/epoch-1"):
        job.train()
    assert job.with_state() == {"epoch-1"}
    model = load_model(job.checkpoints / "epoch-1")
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_batches_larger_than_the_split_are_refused(job):
    with pytest.raises(InputError, match=r"--batch-size 64.*44 rows.*at most 44"):
        job.train(batch_size=64)
    assert not job.checkpoints.exists()


def test_bfloat16_trains_to_about_the_same_loss(new_job):
    exact = new_job().train()
    half = new_job(precision="bfloat16").train()
    assert half.val_loss_after == pytest.approx(exact.val_loss_after, rel=0.05)
    assert half.val_loss_after != exact.val_loss_after


def test_only_two_epochs_have_a_two_epoch_time(new_job):
    assert new_job().train(epochs=1).two_epoch_seconds is None
    assert new_job().train(epochs=3).two_epoch_seconds is None


def test_writing_checkpoints_is_not_training_time(new_job, monkeypatch):
    import time

    plain = checkpoint_module.Checkpoints.write

    def slow(self, *args, **kwargs):
        time.sleep(0.5)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(checkpoint_module.Checkpoints, "write", slow)
    started = time.perf_counter()
    result = new_job().train()
    whole = time.perf_counter() - started
    assert result.checkpoint_seconds > 1.0
    assert result.train_seconds < whole - 1.0


def test_rows_of_one_length_and_of_two_tokens_train(new_job):
    job = new_job(train_rows=[Row([1, 2])] * 8, val_rows=[Row([1, 2])])
    assert job.train(epochs=1).val_loss_after < 4.6
