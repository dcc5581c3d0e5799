"""The forecast: counts against the trainer's own, memory and time worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import TINY
from training.tiny_job import CPU, Job, make_rows

from twolevers.data.batch import Row, collate
from twolevers.data.order import batch_order
from twolevers.device import Device
from twolevers.errors import InputError
from twolevers.forecast import (
    MemoryForecast,
    TimeForecast,
    forecast_memory,
    from_earlier_runs,
    not_fitting,
)
from twolevers.models.attention import causal_within
from twolevers.models.catalog import MODELS, GPT2Config, find_model
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import save_model
from twolevers.options import FineTuneOptions, TrainingOptions
from twolevers.training import fine_tune as fine_tuning
from twolevers.training.calibrate import Calibration, calibrate
from twolevers.training.workload import Workload, workload

SMALL = find_model("gpt2-small")
GIB = 2**30
LOSS_CHUNK = 96 * 2**20


class Rows(list[Row]):
    """Rows as a split has them."""

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(row.token_ids) for row in self])


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"drop_last": False, "eval_every": 7},
        {"gradient_accumulation_steps": 3, "eval_every": 4, "epochs": 3},
    ],
)
def test_counts_are_those_of_the_training_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: dict[str, object]
) -> None:
    job = Job(tmp_path, tmp_path / "weights")
    job.weights.mkdir()
    save_model(GPT2(TINY).initialise(1), job.weights)
    rows = {"train": job.train_rows, "val": job.val_rows}
    monkeypatch.setattr(fine_tuning, "load_split", lambda data, split: rows[split])
    result = job.train(**recipe)
    found = workload(Rows(job.train_rows), job.options(**recipe).training)  # type: ignore[arg-type]
    assert (found.steps, found.tokens) == (result.steps, result.tokens)
    # One more than were logged would be the evaluation before training, which is not timed.
    assert found.evaluations == len(job.tracker.values("val/loss"))
    longest = max(sum(len(row.token_ids) - 1 for row in rows) for rows in batches(job, recipe))
    assert sum(len(row.token_ids) - 1 for row in found.largest) == longest


def batches(job: Job, recipe: dict[str, object]) -> Iterator[Sequence[Row]]:
    """Every batch of every epoch, as the trainer takes them."""
    options = job.options(**recipe).training
    for epoch in range(options.epochs):
        order = batch_order(44, 4, seed=options.seed, epoch=epoch, drop_last=options.drop_last)
        yield from ([job.train_rows[i] for i in batch] for batch in order)


def test_typical_steps_are_near_the_mean() -> None:
    rows = Rows(Row([1] * (2 + i % 50)) for i in range(400))
    found = workload(rows, TrainingOptions(batch_size=4), typical=5)  # type: ignore[arg-type]
    mean = found.tokens / found.steps
    for step in found.typical:
        tokens = sum(len(row.token_ids) - 1 for batch in step for row in batch)
        assert abs(tokens - mean) < 0.2 * mean
    assert len(found.typical) == 5


def test_parameters_are_held_four_times() -> None:
    """gpt2-small has 124,439,808 parameters (the published figure) of 4 bytes each."""
    found = forecast_memory(SMALL.config, make_rows(8), kind="cpu", precision="float32")
    assert found.weights == found.gradients == 4 * 124_439_808
    assert found.optimizer == 8 * 124_439_808
    half = forecast_memory(SMALL.config, make_rows(8), kind="cuda", precision="bfloat16")
    # Matrices of the twelve blocks, 84,934,656 parameters, lie there in bfloat16 too.
    assert half.weights - found.weights == 2 * 84_934_656
    assert half.process == 0
    on_cpu = forecast_memory(
        SMALL.config, make_rows(8), kind="cpu", precision="bfloat16", process=1000
    )
    assert on_cpu.process > 1000  # what oneDNN keeps of its own


def test_activations_are_what_autograd_keeps() -> None:
    """Against a count over the whole model, forward, with the hooks that autograd has for it."""
    config = GPT2Config(emb_dim=64, num_layers=5, num_heads=4, vocab_size=97)
    rows = make_rows(16)
    batch = collate(rows, share_prefix=True)
    model = GPT2(config)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model(batch.input_ids, batch.positions, causal_within(batch.lengths, batch.prefix))
    expected = sum(storage.nbytes() for start, storage in kept.items() if start not in weights)
    found = forecast_memory(config, rows, kind="cpu", precision="float32")
    assert found.activations - LOSS_CHUNK == pytest.approx(expected, rel=0.1)


def test_gradient_checkpointing_holds_one_block() -> None:
    rows = make_rows(16)
    plain, less = (
        forecast_memory(
            SMALL.config, rows, kind="cpu", precision="float32", gradient_checkpointing=one
        )
        for one in (False, True)
    )
    assert less.activations - LOSS_CHUNK < 0.25 * (plain.activations - LOSS_CHUNK)
    assert less.weights == plain.weights


def test_what_does_not_fit_names_both_levers() -> None:
    memory = MemoryForecast(0, 6 * GIB, 6 * GIB, 12 * GIB, GIB)
    model = find_model("gpt2-xl")
    refused = not_fitting(model, Device("cuda:0", "NVIDIA L4", 2, 22 * GIB), memory)
    assert isinstance(refused, InputError)
    for part in ("25.00 GiB", "22.00 GiB", "gpt2-large (774M)", "a device with more memory"):
        assert part in str(refused)
    assert not_fitting(model, Device("cuda:0", "NVIDIA A100", 2, 80 * GIB), memory) is None
    assert not_fitting(model, Device("mps", "unknown", 2, 0), memory) is None
    nano = not_fitting(next(iter(MODELS.values())), Device("cpu", "x", 1, GIB), memory)
    assert "a smaller model" not in str(nano), "there is none"


def test_a_time_is_steps_and_evaluations() -> None:
    work = Workload(steps=100, tokens=1, evaluations=20, typical=[], largest=[])
    # 7 for the first, 99 x 2 for the others; their quartiles are 1.5 and 2.5. And 20 x 0.5.
    measured = Calibration(0.3, 7.0, (9.0, 1.0, 2.0, 1.5, 2.5), evaluations=(0.5, 0.4, 3.0))
    assert measured.seconds(work) == (215.0, 165.5, 264.5)
    measured = Calibration(0.3, 1.0, (1.0,), evaluations=(0.5,))
    assert measured.seconds(work) == (110.0, pytest.approx(99.0), pytest.approx(121.0))


def test_a_first_step_alone_is_the_most_that_it_takes() -> None:
    """It is the slowest, for it takes fresh memory."""
    work = Workload(steps=100, tokens=1, evaluations=20, typical=[], largest=[])
    seconds = Calibration(0.3, 1.0, (), evaluations=(0.5,)).seconds(work)
    assert seconds == (110.0, 0.0, pytest.approx(121.0))
    assert str(TimeForecast(*seconds, "x")) == "2 min 01 s at most (from x)"


def test_a_step_that_was_not_timed_counts_as_three_forward_passes() -> None:
    """By the products of the backward pass, twice as many; no range is made up for it."""
    work = Workload(steps=100, tokens=1, evaluations=20, typical=[], largest=[])
    seconds = Calibration(0.3, None, (), evaluations=(0.5,)).seconds(work)
    assert seconds == (pytest.approx(100.0), 0.0, None)
    assert str(TimeForecast(*seconds, "x")) == "about 1 min 40 s (from x)"


def test_earlier_runs_are_the_time() -> None:
    found = from_earlier_runs([53.0, 55.0, 40.0])
    assert (found.seconds, found.low, found.high) == (53.0, 40.0, pytest.approx(58.3))
    assert str(found) == "about 53.0 s (40.0 s to 58.3 s, from 3 earlier runs)"
    assert from_earlier_runs([50.0]).low == pytest.approx(45.0)


def test_steps_are_real_and_time_is_kept() -> None:
    rows = Rows(make_rows(44, 1))
    options = FineTuneOptions.model_validate(
        {"precision": "float32", "training": {"learning_rate": 1e-2, "batch_size": 4}}
    )
    work = workload(rows, options.training, typical=6)  # type: ignore[arg-type]
    model = GPT2(TINY).initialise(1)
    before = model.wte.weight.detach().clone()
    long = replace(work, steps=10**6)
    found = calibrate(model, long, rows, rows, options, CPU, seconds=60)  # type: ignore[arg-type]
    assert len(found.steps) == 5, "the first one stands alone"
    assert all(math.isfinite(seconds) and seconds > 0 for seconds in found.steps)
    assert all(seconds > 0 for seconds in found.evaluations)
    assert not torch.equal(before, model.wte.weight), "the weights were trained"
    short = replace(work, steps=1, evaluations=1)
    found = calibrate(model, short, rows, rows, options, CPU, seconds=60)  # type: ignore[arg-type]
    assert len(found.steps) == 3, "a tenth of one step's time is over before"
    at_once = calibrate(model, work, rows, rows, options, CPU, seconds=0)  # type: ignore[arg-type]
    assert (at_once.first, at_once.steps) == (None, ())
    assert at_once.forward > 0
