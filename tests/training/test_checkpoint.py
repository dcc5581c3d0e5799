"""Which checkpoints stay, what lies in them, and what a full disk does."""

from __future__ import annotations

import errno
import json

import pytest
from tiny import Killed

from twolevers.errors import TrainingError
from twolevers.models.weights import load_model
from twolevers.training import trainer, trainer_state


def test_a_finished_run_leaves_plain_model_folders(new_job):
    job = new_job(run={"keep_checkpoints": 2})
    result = job.train()
    assert job.names() == {"epoch-1", "epoch-2", "best", "finished.json"}
    assert {path.name for path in result.checkpoint.iterdir()} == {
        "model.safetensors",
        "config.json",
    }
    assert job.with_state() == set()


@pytest.mark.parametrize(
    ("keep", "val_losses", "expected", "best"),
    [
        (1, [3.0, 1.0, 2.0, 2.5], {"epoch-2", "epoch-4"}, "epoch-2"),
        (1, [3.0, 2.5, 2.0, 1.0], {"epoch-4"}, "epoch-4"),
        (2, [1.0, 2.0, 3.0, 4.0], {"epoch-1", "epoch-3", "epoch-4"}, "epoch-1"),
        (9, [1.0, 1.0, 1.0, 1.0], {"epoch-1", "epoch-2", "epoch-3", "epoch-4"}, "epoch-1"),
    ],
)
def test_best_and_newest_stay_and_as_many_of_the_latest(
    new_job, monkeypatch, keep, val_losses, expected, best
):
    job = new_job(run={"keep_checkpoints": keep})
    whole_split = iter(val_losses)
    real = trainer.mean_loss
    monkeypatch.setattr(
        trainer,
        "mean_loss",
        lambda model, batches: (
            real(model, batches) if isinstance(batches, list) else next(whole_split)
        ),
    )
    result = job.train(epochs=4, batch_size=22)
    assert job.names() == expected | {"best", "finished.json"}
    link = job.checkpoints / "best"
    assert link.is_symlink()
    assert str(link.readlink()) == best, "relative, so that the folder can be moved"
    assert result.best_checkpoint == job.checkpoints / best
    assert result.best_val_loss == min(val_losses)
    assert result.checkpoint == job.checkpoints / "epoch-4"
    assert [metrics["val/epoch_loss"] for _, _, metrics in job.tracker.checkpoints] == val_losses


def test_the_best_is_the_lowest_loss_over_the_whole_split(job):
    from twolevers.data.batch import collate
    from twolevers.training.loss import mean_loss

    result = job.train(eval_batches=1)
    model = load_model(result.best_checkpoint)
    assert result.best_val_loss == pytest.approx(mean_loss(model, [collate(job.val_rows)]), 1e-5)
    assert result.best_val_loss != result.val_loss_after


def test_step_checkpoints_go_when_a_newer_one_is_there(job):
    with pytest.raises(Killed):
        job.train(checkpoint_every=4, kill_after=10)
    assert job.names() == {"step-000008"}
    assert job.with_state() == {"step-000008"}
    job.train(resume=True, checkpoint_every=11)
    assert job.names() == {"epoch-2", "best", "finished.json"}


def test_the_state_is_readable_and_holds_no_pickle(job):
    with pytest.raises(Killed):
        job.train(kill_after=12)
    folder = job.checkpoints / "epoch-1"
    state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
    assert (state["step"], state["epoch"], state["batches"]) == (11, 1, 0)
    assert state["settings"]["batch_size"] == 4
    header = (folder / "trainer_state.safetensors").read_bytes()[8:2000]
    assert header.startswith(b"{")


@pytest.mark.parametrize("part", ["model", "state"])
def test_a_full_disk_leaves_the_older_checkpoint(job, monkeypatch, part):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        target = (trainer, "save_model") if part == "model" else (trainer_state, "save_file")
        real, calls = getattr(*target), []

        def second_time_full(*args, **kwargs):
            calls.append(1)
            return full() if len(calls) == 2 else real(*args, **kwargs)

        patch.setattr(*target, second_time_full)
        with pytest.raises(TrainingError, match=r"epoch-2 could not be written .*No space left"):
            job.train()
    assert job.names() == {"epoch-1", "best"}
    assert job.with_state() == {"epoch-1"}
    assert job.train(resume=True).epochs == 2


def test_killed_while_writing_leaves_the_older_checkpoint(job, monkeypatch):
    with monkeypatch.context() as patch:
        real, calls = trainer.save_state, []

        def killed(*args):
            calls.append(1)
            real(*args)
            if len(calls) == 2:
                raise Killed

        patch.setattr(trainer, "save_state", killed)
        with pytest.raises(Killed):
            job.train()
    assert job.names() == {"epoch-1", "best"}
    assert job.train(resume=True).epochs == 2
