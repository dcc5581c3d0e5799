"""Stopped, killed and resumed runs end with the bits of one that never was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tiny import Killed
from tiny_job import make_rows

from twolevers.errors import InputError, RunStopped, TrainingError
from twolevers.training.checkpoint import has_checkpoint

RECIPES = {
    "chapter": {},
    "dropout": {"dropout": 0.3},
    "accumulated": {"gradient_accumulation_steps": 3, "dropout": 0.1, "lr_schedule": "cosine"},
}


@pytest.fixture(scope="module")
def whole() -> dict[str, tuple[str, dict[int, float]]]:
    """Results of runs that were never stopped, by recipe."""
    return {}


def undisturbed(whole, new_job, recipe: str) -> tuple[str, dict[int, float]]:
    if recipe not in whole:
        job = new_job()
        whole[recipe] = job.train(**RECIPES[recipe]).sha256, job.tracker.values("train/loss")
    return whole[recipe]


@pytest.mark.parametrize(
    ("recipe", "step"),
    [
        ("chapter", 1),
        ("dropout", 7),
        ("dropout", 11),
        ("dropout", 21),
        ("accumulated", 2),
        ("accumulated", 4),
        ("accumulated", 6),
    ],
)
def test_stopped_at_any_step(whole, new_job, recipe, step):
    expected, losses = undisturbed(whole, new_job, recipe)
    job = new_job()
    with pytest.raises(RunStopped, match=rf"after {step} of \d+ steps \(SIGTERM\).*checkpoints/"):
        job.train(stop_after=step, **RECIPES[recipe])
    assert job.progress.finished
    assert len(job.with_state()) == 1
    result = job.train(resume=True, **RECIPES[recipe])
    assert result.sha256 == expected
    assert job.tracker.values("train/loss") == losses
    assert [m["train/loss"] for _, _, m in job.tracker.metrics if "train/loss" in m] == list(
        losses.values()
    ), "no step was done twice"
    assert result.resumed
    assert result.two_epoch_seconds is None
    assert job.with_state() == set()


@pytest.mark.parametrize("step", [3, 12, 22])
def test_killed_between_checkpoints_repeats_steps_to_the_bit(whole, new_job, step):
    expected, losses = undisturbed(whole, new_job, "dropout")
    job = new_job()
    with pytest.raises(Killed):
        job.train(kill_after=step, **RECIPES["dropout"])
    result = job.train(resume=True, **RECIPES["dropout"])
    assert result.sha256 == expected
    assert job.tracker.values("train/loss") == losses
    first = job.progress.notes[0]
    assert first == (
        "No checkpoint to go on from: training starts from the beginning."
        if step < 11
        else "Going on from epoch-1, after 11 steps."
    )


def test_stopped_again_and_again(whole, new_job):
    expected, _ = undisturbed(whole, new_job, "dropout")
    job = new_job()
    for number, step in enumerate((2, 3, 11, 15)):
        with pytest.raises(RunStopped):
            job.train(resume=number > 0, stop_after=step, **RECIPES["dropout"])
        assert job.with_state() == {"epoch-1" if step == 11 else f"step-{step:06d}"}
    assert job.names() == {"epoch-1", "step-000015", "best"}
    assert job.train(resume=True, **RECIPES["dropout"]).sha256 == expected


def test_times_and_tokens_go_on_from_where_they_stood(new_job):
    job = new_job()
    with pytest.raises(RunStopped):
        job.train(stop_after=8)
    before = sum(len(row.token_ids) - 1 for row in job.train_rows)
    result = job.train(resume=True)
    assert result.tokens == 2 * before
    assert result.steps == 22
    assert result.step_seconds <= result.train_seconds
    assert result.train_loss_before > 4


def test_stopped_before_the_first_step_has_nothing_to_keep(job):
    job.progress.stop.request("Ctrl-C")
    stop = job.progress.stop
    from twolevers.training import trainer

    real = trainer.Trainer.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer.Trainer, "run", lambda self, start, _: real(self, start, stop))
        with pytest.raises(RunStopped, match=r"before the first step \(Ctrl-C\)"):
            job.train()
    assert not has_checkpoint(job.root / "run")


def test_a_finished_run_says_so(job):
    first = job.train()
    assert has_checkpoint(job.root / "run")
    assert job.train(resume=True) == first
    assert job.progress.notes == ["Training of this run had finished (2 epochs); nothing is left."]


def test_a_finished_run_may_have_been_moved(job):
    job.train(epochs=1)
    moved = job.root.with_name(job.root.name + "-moved")
    job.root.rename(moved)
    job.root = moved
    result = job.train(resume=True, epochs=1)
    assert result.checkpoint == job.checkpoints / "epoch-1"
    assert (job.checkpoints / "best" / "model.safetensors").is_file()


def test_a_finished_run_is_not_silently_extended(job):
    job.train()
    with pytest.raises(
        InputError, match=r"finished, with 2 epochs.*--weights .*epoch-2 --epochs 1"
    ):
        job.train(resume=True, epochs=3)


def test_an_unfinished_run_may_be_given_more_epochs(new_job):
    job, whole = new_job(), new_job()
    with pytest.raises(RunStopped):
        job.train(stop_after=13)
    assert job.train(resume=True, epochs=3).sha256 == whole.train(epochs=3).sha256


def test_killed_after_the_last_checkpoint_only_finishes(new_job, monkeypatch):
    from twolevers.training import trainer

    job, whole = new_job(), new_job()
    with monkeypatch.context() as patch:
        patch.setattr(
            trainer.Trainer, "_finish", lambda self, resumed: (_ for _ in ()).throw(Killed)
        )
        with pytest.raises(Killed):
            job.train()
    result, expected = job.train(resume=True), whole.train()
    assert result.sha256 == expected.sha256
    assert result.val_loss_after == expected.val_loss_after


def test_every_changed_option_is_named_at_once(job):
    with pytest.raises(RunStopped):
        job.train(stop_after=13)
    job.precision = "bfloat16"
    with pytest.raises(InputError) as caught:
        job.train(resume=True, batch_size=2, seed=7, learning_rate=1e-4, epochs=1)
    wheres = {problem.where for problem in caught.value.problems}
    assert wheres == {"--batch-size", "--seed", "--learning-rate", "--precision", "--epochs"}
    assert "--batch-size 2: the run was started with 4; resume with" in str(caught.value)
    assert "epoch 2 already; take at least 2" in str(caught.value)
    assert job.with_state() == {"step-000013"}, "nothing was touched"


def test_options_that_move_no_weights_may_change(new_job):
    job, whole = new_job(), new_job()
    with pytest.raises(RunStopped):
        job.train(stop_after=4)
    result = job.train(resume=True, eval_every=3, gradient_checkpointing=True, checkpoint_every=4)
    assert result.sha256 == whole.train().sha256


def test_damaged_trainer_state_says_what_can_be_done(job):
    with pytest.raises(RunStopped):
        job.train(stop_after=4)
    state = job.checkpoints / "step-000004" / "trainer_state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(TrainingError, match=r"cannot be read.*--weights .*step-000004"):
        job.train(resume=True)


def test_a_new_run_does_not_write_over_an_old_one(job):
    job.train(epochs=1)
    with pytest.raises(InputError, match="holds checkpoints already"):
        job.train()


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import time
import torch
torch.set_num_threads(1)
from training.tiny_job import Job
from twolevers.training import fine_tune as module

job = Job(Path({root!r}), Path({weights!r}))
module.load_split = lambda data, split: dict(train=job.train_rows, val=job.val_rows)[split]
log = job.tracker.log_metrics
def slow(metrics, *, step, tokens=0):
    print(step, flush=True)
    time.sleep(0.05)
job.tracker.log_metrics = slow
job.train(dropout=0.3, checkpoint_every=2, epochs=2)
"""


def test_a_process_killed_with_kill_9(whole, new_job):
    expected, _ = undisturbed(whole, new_job, "dropout")
    job = new_job()
    code = CHILD.format(
        tests=str(Path(__file__).parents[1]), root=str(job.root), weights=str(job.weights)
    )
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 7:
            break
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    # What the kill may leave: a half-written folder.
    (job.checkpoints / ".epoch-1.half").mkdir()
    assert len(job.with_state()) == 1
    result = job.train(resume=True, dropout=0.3)
    assert result.sha256 == expected
    assert not [name for name in job.names() if name.startswith(".")]


def test_other_data_is_refused(job, monkeypatch):
    with pytest.raises(RunStopped):
        job.train(stop_after=4)
    import tiny_job

    real = tiny_job.tokenised
    monkeypatch.setattr(
        tiny_job,
        "tokenised",
        lambda path, job: real(path, job).model_copy(update={"sha256": "1" * 64}),
    )
    job.train_rows = make_rows(44, 8)
    with pytest.raises(InputError, match="tokenised data '1111"):
        job.train(resume=True)


def test_the_clock_does_not_run_between_calls(job):
    with pytest.raises(RunStopped):
        job.train(stop_after=4)
    time.sleep(1.0)
    started = time.perf_counter()
    result = job.train(resume=True)
    assert result.train_seconds < time.perf_counter() - started + 1.0
