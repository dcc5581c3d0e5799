"""Stopped, killed and resumed trainings end with the bits of one that never was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tiny import Killed, RecordingTracker
from toy import Toy

from twolevers.classification import train
from twolevers.errors import InputError, RunStopped, TrainingError
from twolevers.files import sha256_of
from twolevers.models.weights import load_model


def bits(checkpoint: Path) -> list[str]:
    return [sha256_of(checkpoint / f"{part}.safetensors") for part in ("model", "head")]


def states(toy: Toy) -> list[str]:
    """Folders that training can go on from."""
    found = (toy.root / "run" / "checkpoints").glob("*/trainer_state.safetensors")
    return sorted(path.parent.name for path in found if not path.parent.is_symlink())


@pytest.mark.parametrize("trained", ["head", "last_block", "all", "lora"])
def test_stopped_and_killed_to_the_same_bits(
    toy: Toy, trained: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, which no option sets, so that the random numbers have to go on too."""
    monkeypatch.setattr(train, "load_model", partial(load_model, dropout=0.3))
    whole, losses = toy.train("whole", train=trained), toy.tracker.values
    toy.tracker = RecordingTracker()
    with pytest.raises(RunStopped, match=r"Stopped after 3 of 16 steps \(SIGTERM\)\. Resume"):
        toy.train(train=trained, stop_after=3)
    assert states(toy) == ["step-000003"]
    with pytest.raises(Killed):
        toy.train(train=trained, kill_after=11)
    assert states(toy) == ["step-000008"]  # the first epoch's end
    resumed = toy.train(train=trained)
    assert bits(resumed.checkpoint) == bits(whole.checkpoint)
    for name in ("train/loss", "val/loss", "val/epoch_loss"):
        assert toy.tracker.values(name) == losses(name), name
        logged = [step for step, _, metrics in toy.tracker.metrics if name in metrics]
        repeated = 3 if name == "train/loss" else 0  # those that the kill had not kept
        assert len(logged) == len({*logged}) + repeated, name
    for name in ("steps", "tokens", "train_loss_before", "val_loss_before", "val_loss_after"):
        assert getattr(resumed, name) == getattr(whole, name), name
    assert resumed.train_seconds >= resumed.step_seconds
    assert states(toy) == []
    assert toy.train(train=trained) == resumed, "a training that has ended is not done again"


def test_a_kill_before_the_result_was_noted(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = toy.train("whole", train="lora", epochs=1)

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(toy.tracker, "log_checkpoint", kill)
        with pytest.raises(Killed):
            toy.train(train="lora", epochs=1)
    assert states(toy) == ["epoch-1"]
    resumed = toy.train(train="lora", epochs=1)
    assert bits(resumed.checkpoint) == bits(whole.checkpoint)
    assert resumed.val_loss_after == whole.val_loss_after


def test_another_run_is_refused_and_more_epochs_are_not(toy: Toy) -> None:
    whole = toy.train("whole", train="head", epochs=2)
    with pytest.raises(RunStopped, match="after 7 of 8 steps"):
        toy.train(train="head", epochs=1, stop_after=7)
    with pytest.raises(InputError) as said:
        toy.train(train="head", batch_size=4, seed=1)
    assert len(said.value.problems) == 2
    assert "--batch-size 4: the run was started with 8" in str(said.value)
    assert "--weights" not in str(said.value), "nothing there holds weights"
    more = toy.train(train="head", epochs=2, eval_every=3)
    assert bits(more.checkpoint) == bits(whole.checkpoint)
    with pytest.raises(InputError, match="training of this run has finished, with 2 epochs"):
        toy.train(train="head", epochs=3)


def test_stopped_at_once_and_damaged(toy: Toy) -> None:
    with pytest.raises(RunStopped, match=r"before the first step \(SIGTERM\): there is nothing"):
        toy.train(train="head", stop_after=0)
    assert states(toy) == []
    with pytest.raises(RunStopped, match="after 1 of 16"):
        toy.train(train="head", stop_after=1)
    state = toy.root / "run" / "checkpoints" / "step-000001" / "trainer_state.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(TrainingError, match=r"cannot be read .* Start a new run\."):
        toy.train(train="head")
