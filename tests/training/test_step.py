"""Optimizer steps: accumulation, a plain padded loop as judge, no number, clipping."""

from __future__ import annotations

import copy

import pytest
import torch
from tiny import TINY
from tiny_job import CPU, make_rows
from torch.nn import functional as F
from transformers import GPT2LMHeadModel

from twolevers.data.batch import Row, collate
from twolevers.errors import TrainingError
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import save_model
from twolevers.options import TrainingOptions
from twolevers.training.optimizer import make_optimizer
from twolevers.training.precision import gradient_scaler
from twolevers.training.step import StepFigures, optimizer_step

RECIPE = TrainingOptions(learning_rate=1e-2)


def step(model: GPT2, optimizer: torch.optim.AdamW, batches, clip=None) -> StepFigures:
    return optimizer_step(
        model,
        optimizer,
        gradient_scaler(CPU, "float32"),
        batches,
        learning_rate=1e-2,
        gradient_clip=clip,
        device=CPU,
        precision="float32",
    )


def test_two_and_one_supervised_tokens_give_the_combined_batch():
    """transformers issue 37766: the mean of two means would weigh the single token double."""
    two, one = Row([5, 6, 7], 1), Row([8, 9, 10], 2)
    models = [GPT2(TINY).initialise(1) for _ in range(2)]
    apart = step(models[0], make_optimizer(models[0], RECIPE), [collate([two]), collate([one])])
    joined = step(models[1], make_optimizer(models[1], RECIPE), [collate([two, one])])
    assert apart.loss == pytest.approx(joined.loss, rel=1e-6)
    assert apart.grad_norm == pytest.approx(joined.grad_norm, rel=1e-5)
    assert apart.tokens == joined.tokens == 4


def test_accumulated_gradient_is_the_combined_batchs(monkeypatch):
    rows = make_rows(9)
    found = []
    monkeypatch.setattr(
        torch.optim.AdamW,
        "step",
        lambda self: found.append([p.grad.clone() for p in self.param_groups[0]["params"]]),
    )
    model = GPT2(TINY).initialise(1)
    optimizer = make_optimizer(model, RECIPE)
    step(model, optimizer, [collate(rows[:2]), collate(rows[2:3]), collate(rows[3:])])
    step(model, optimizer, [collate(rows)])
    for apart, joined in zip(*found, strict=True):
        assert (apart - joined).norm() <= 1e-5 * joined.norm()


def test_losses_are_those_of_a_plain_padded_loop(tmp_path):
    """Hugging Face's model, padded, unfused AdamW, cross-entropy over all logits: chapter 7."""
    model = GPT2(TINY).initialise(1)
    save_model(model, tmp_path)
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path).eval()  # eval: its dropout is 0.1
    judge = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0.1)
    optimizer = make_optimizer(model, RECIPE)
    rows = make_rows(40)
    for start in range(0, 40, 8):
        batch = [list(row.token_ids) for row in rows[start : start + 8]]
        longest = max(map(len, batch))
        ids = torch.tensor([row + [96] * (longest - len(row)) for row in batch])
        targets = torch.tensor([row[1:] + [-100] * (longest - len(row)) for row in batch])
        logits = theirs(ids[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        judge.zero_grad()
        loss.backward()
        judge.step()
        figures = step(model, optimizer, [collate([Row(row) for row in batch])])
        assert figures.loss == pytest.approx(loss.item(), abs=1e-4)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number_stops_before_the_weights_take_harm(value):
    model = GPT2(TINY).initialise(1)
    with torch.no_grad():
        model.h[0].mlp.c_fc.weight[0, 0] = value
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(TrainingError, match="loss is nan"):
        step(model, make_optimizer(model, RECIPE), [collate(make_rows(2))])
    for name, parameter in model.state_dict().items():
        assert torch.equal(parameter.nan_to_num(), before[name].nan_to_num())


def test_clipping_bounds_the_gradient_and_reports_it_whole(monkeypatch):
    norms = []
    monkeypatch.setattr(
        torch.optim.AdamW,
        "step",
        lambda self: norms.append(
            torch.cat([p.grad.flatten() for p in self.param_groups[0]["params"]]).norm().item()
        ),
    )
    model = GPT2(TINY).initialise(1)
    optimizer = make_optimizer(model, RECIPE)
    whole = step(model, optimizer, [collate(make_rows(4))])
    clipped = step(model, optimizer, [collate(make_rows(4))], clip=0.5)
    assert norms[0] == pytest.approx(whole.grad_norm, rel=1e-5)
    assert clipped.grad_norm == whole.grad_norm > 0.5
    assert norms[1] == pytest.approx(0.5, rel=1e-4)
