"""A device that computes something else than the CPU is found before it trains."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tiny_job import make_rows

from twolevers.device import Device
from twolevers.errors import DeviceError
from twolevers.training import fine_tune as fine_tuning
from twolevers.training.agreement import agreement_batch, check_agreement


def test_the_published_fault_is_named_with_both_losses():
    """19.88 on MPS where the CPU has 3.83: LLMs-from-scratch issue 791."""
    with pytest.raises(DeviceError, match=r"19\.8800 on mps and 3\.8300 on the CPU.*--device cpu"):
        check_agreement("mps", {"mps": 19.88, "cpu": 3.83}.__getitem__)


@pytest.mark.parametrize("found", [3.83 * 1.002, 3.83 * 0.998, float("nan"), float("inf"), 0.0])
def test_wrong_losses_are_refused(found):
    with pytest.raises(DeviceError):
        check_agreement("cuda:0", {"cuda:0": found, "cpu": 3.83}.__getitem__)


def test_a_cpu_loss_that_is_no_number_is_no_agreement():
    with pytest.raises(DeviceError):
        check_agreement("cuda:0", lambda name: float("nan"))


@pytest.mark.parametrize("found", [3.83, 3.83 * 1.0009])
def test_rounding_is_allowed(found):
    check_agreement("cuda:0", {"cuda:0": found, "cpu": 3.83}.__getitem__)


@pytest.mark.parametrize(("rows", "batch_size", "expected"), [(20, 8, 9), (20, 12, 12), (2, 1, 9)])
def test_at_least_nine_rows_and_as_many_as_a_batch(rows, batch_size, expected):
    batch = agreement_batch(make_rows(rows), batch_size)
    assert len(batch.lengths) == expected


@dataclass(frozen=True)
class StandIn(Device):
    """Another device in name; PyTorch takes `cpu:0` for the CPU."""

    @property
    def kind(self) -> str:
        return "stand-in"


STAND_IN = StandIn("cpu:0", "a stand-in", 2, 0)


@pytest.fixture
def moves(monkeypatch) -> list[str]:
    """Where models were moved to, and a device wrong from nine rows on (pytorch issue 109457)."""
    moved: list[str] = []

    def mean_loss(model, batches):
        (batch,) = batches
        return 19.88 if moved[-1] == "cpu:0" and len(batch.lengths) >= 9 else 3.83

    move = fine_tuning.GPT2.to
    monkeypatch.setattr(
        fine_tuning.GPT2, "to", lambda model, name: moved.append(name) or move(model, name)
    )
    monkeypatch.setattr(fine_tuning, "mean_loss", mean_loss)
    return moved


def test_training_on_a_wrong_device_does_not_begin(new_job, moves):
    job = new_job(device=STAND_IN)
    with pytest.raises(DeviceError, match=r"19\.8800 on cpu:0"):
        job.train(batch_size=4)
    assert job.tracker.metrics == []
    assert not job.checkpoints.exists()


def test_the_check_can_be_left_out(new_job, moves):
    job = new_job(device=STAND_IN, run={"check_device": False})
    assert job.train(epochs=1).epochs == 1


def test_a_device_that_agrees_trains(new_job):
    here, there = new_job().train(epochs=1), new_job(device=STAND_IN).train(epochs=1)
    assert here.sha256 == there.sha256
