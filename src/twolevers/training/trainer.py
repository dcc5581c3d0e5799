"""The training loop: chapter 7's recipe, stoppable between any two steps.

Steps are counted as the chapter prints them: step 0 is the first update, and both splits are
evaluated after step 0, `eval_every`, twice that, and so on. A metric of step 5 is the loss that
the sixth update saw, or what was measured right after it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twolevers.data.batch import Row, collate
from twolevers.data.order import batch_order
from twolevers.device import Device
from twolevers.errors import RunStopped, TrainingError
from twolevers.files import sha256_of
from twolevers.interrupt import StopFlag
from twolevers.models.gpt2 import GPT2
from twolevers.models.layout import WEIGHTS_FILE
from twolevers.models.weights import save_model
from twolevers.options import FineTuneOptions
from twolevers.progress import Progress
from twolevers.records import TrainingResult
from twolevers.tracking.protocol import Tracker
from twolevers.training.checkpoint import Checkpoints, epoch_name, step_name
from twolevers.training.evaluate import first_batches, joined_batches
from twolevers.training.loss import mean_loss
from twolevers.training.memory import PeakMemory
from twolevers.training.optimizer import make_optimizer
from twolevers.training.precision import autocast, gradient_scaler, synchronise
from twolevers.training.resume import stopped
from twolevers.training.schedule import check_warmup, learning_rate_at
from twolevers.training.step import optimizer_step
from twolevers.training.stopwatch import Stopwatch
from twolevers.training.trainer_state import TrainerState, restore_state, save_state


@dataclass(frozen=True)
class Splits:
    """The rows to train on and those to validate on."""

    train: Sequence[Row]
    val: Sequence[Row]


class Trainer:
    """One training call. `state` says where it stands and is what a checkpoint keeps."""

    def __init__(
        self,
        model: GPT2,
        splits: Splits,
        options: FineTuneOptions,
        device: Device,
        state: TrainerState,
        checkpoints: Checkpoints,
        tracker: Tracker,
        progress: Progress,
        memory: PeakMemory,
    ) -> None:
        self.model, self.splits, self.device, self.state = model, splits, device, state
        self.options, self.recipe = options, options.training
        self.checkpoints, self.memory = checkpoints, memory
        self.tracker, self.progress = tracker, progress
        self.optimizer = make_optimizer(model, self.recipe)
        self.scaler = gradient_scaler(device, options.precision)
        per_epoch = -(-len(self._order(0)) // self.recipe.gradient_accumulation_steps)
        self.total_steps = per_epoch * self.recipe.epochs
        check_warmup(self.total_steps, self.recipe)
        size, count = self.recipe.batch_size, self.recipe.eval_batches
        self.eval_train = [b.to(device.name) for b in first_batches(splits.train, size, count)]
        self.eval_val = [b.to(device.name) for b in first_batches(splits.val, size, count)]
        self.share_prefix = model.config.dropout == 0  # dropout differs by row
        self.losses = (math.nan, math.nan)
        self.evaluated_at = self.saved_at = -1

    def run(self, start: Path | None, stop: StopFlag) -> TrainingResult:
        """Trains to the end, from where `start` stood if there is one."""
        state, recipe = self.state, self.recipe
        self.progress.start("fine-tune", self.total_steps, "steps")
        try:
            if start is None:
                state.train_loss_before, state.val_loss_before = self._evaluate()
                self._note("before training")
            else:
                restore_state(start, state, self.model, self.optimizer, self.scaler, self.device)
                self.saved_at = state.step
            # Starts here: what was computed before training is not timed (nor is it in chapter 7).
            self.watch = Stopwatch.continued(state.seconds, state.train_seconds)

            while state.epoch < recipe.epochs:
                order = self._order(state.epoch)
                while state.batches < len(order):
                    if stop:
                        raise self._stopped(stop)
                    step = state.step
                    with self.watch.measure("steps"):
                        self._step(order)
                    if step % recipe.eval_every == 0:
                        with self.watch.measure("evaluations"):
                            self._evaluate_and_log(step)
                    if self._is_checkpoint_due() and state.batches < len(order):
                        self._write_checkpoint(step_name(state.step))
                state.epoch, state.batches = state.epoch + 1, 0
                self._write_checkpoint(epoch_name(state.epoch))

            state.train_seconds = self.watch.train_seconds
            if self.evaluated_at != state.step:
                self._evaluate_and_log(state.step - 1)
            return self._finish(resumed=start is not None)
        finally:
            self.progress.finish()

    def _order(self, epoch: int) -> list[list[int]]:
        """The epoch's batches. Those left over where `gradient_accumulation_steps` does not
        divide them make a smaller last step; no step reaches into the next epoch."""
        recipe = self.recipe
        return batch_order(
            len(self.splits.train),
            recipe.batch_size,
            seed=recipe.seed,
            epoch=epoch,
            drop_last=recipe.drop_last,
        )

    def _is_checkpoint_due(self) -> bool:
        every = self.recipe.checkpoint_every
        return every is not None and self.state.step % every == 0

    def _step(self, order: Sequence[Sequence[int]]) -> None:
        """The next optimizer step of the epoch, told to tracker and progress."""
        started, state = time.perf_counter(), self.state
        indices = order[state.batches : state.batches + self.recipe.gradient_accumulation_steps]
        batches = [
            collate([self.splits.train[i] for i in batch], share_prefix=self.share_prefix)
            for batch in indices
        ]
        rate = learning_rate_at(state.step, self.total_steps, self.recipe)
        try:
            figures = optimizer_step(
                self.model,
                self.optimizer,
                self.scaler,
                batches,
                learning_rate=rate,
                gradient_clip=self.recipe.gradient_clip,
                device=self.device,
                precision=self.options.precision,
            )
        except TrainingError as error:
            raise self._diverged(error, rate) from error
        state.tokens += figures.tokens
        speed = figures.tokens / (time.perf_counter() - started)
        metrics = {
            "train/loss": figures.loss,
            "train/grad_norm": figures.grad_norm,
            "train/lr": rate,
            "train/tokens_per_second": speed,
        }
        self.tracker.log_metrics(metrics, step=state.step, tokens=state.tokens)
        state.step += 1
        state.batches += len(indices)
        self.progress.advance(state.step, loss=figures.loss, tokens_per_second=speed)

    def _evaluate(self) -> tuple[float, float]:
        """Loss on the first batches of train and val, in the precision of training."""
        synchronise(self.device)
        with autocast(self.device, self.options.precision):
            self.losses = (
                mean_loss(self.model, self.eval_train),
                mean_loss(self.model, self.eval_val),
            )
        self.evaluated_at = self.state.step
        return self.losses

    def _evaluate_and_log(self, step: int) -> None:
        train_loss, val_loss = self._evaluate()
        metrics = {"train/eval_loss": train_loss, "val/loss": val_loss}
        self.tracker.log_metrics(metrics, step=step, tokens=self.state.tokens)
        self._note(f"step {step}")

    def _note(self, when: str) -> None:
        self.progress.note(f"{when}: train {self.losses[0]:.3f}, val {self.losses[1]:.3f}")

    def _write_checkpoint(self, name: str) -> None:
        """A checkpoint; for an epoch's, the loss over the whole validation split decides `best`.

        All of it counts as the time of checkpoints: the chapter does neither.
        """
        state, step = self.state, self.state.step - 1
        state.train_seconds = self.watch.train_seconds
        with self.watch.measure("checkpoints"):
            metrics: dict[str, float] = {}
            if name == epoch_name(state.epoch):
                with autocast(self.device, self.options.precision):
                    batches = joined_batches(self.splits.val, range(len(self.splits.val)))
                    val_loss = mean_loss(self.model, batches)
                if not math.isfinite(val_loss):
                    rate = learning_rate_at(step, self.total_steps, self.recipe)
                    raise self._diverged(TrainingError(f"The validation loss is {val_loss}"), rate)
                metrics = {"val/epoch_loss": val_loss}
                self.tracker.log_metrics(metrics, step=step, tokens=state.tokens)
                if state.best_val_loss is None or val_loss < state.best_val_loss:
                    state.best, state.best_val_loss = name, val_loss
            state.seconds = dict(self.watch.parts)
            self.checkpoints.write(name, self._fill, best=state.best)
            self.saved_at = state.step
            folder = self.checkpoints.folder / name
            self.tracker.log_checkpoint(folder, step=step, metrics=metrics)
            if metrics:
                self.progress.note(f"{name}: val {val_loss:.3f} over the whole split, kept")

    def _fill(self, folder: Path) -> None:
        save_model(self.model, folder)
        save_state(folder, self.state, self.model, self.optimizer, self.scaler, self.device)

    def _stopped(self, stop: StopFlag) -> RunStopped:
        """Writes where training stands, unless the newest checkpoint says so already."""
        if self.state.step not in (0, self.saved_at):
            self._write_checkpoint(step_name(self.state.step))
        return stopped(stop, self.state, self.total_steps, self.checkpoints.newest())

    def _diverged(self, error: TrainingError, rate: float) -> TrainingError:
        kept = self.checkpoints.newest()
        return TrainingError(
            f"{error} at step {self.state.step} (learning rate {rate:g}, "
            f"{self.options.precision}); training stopped before the weights took harm. "
            + (f"The last checkpoint is kept: {kept}. " if kept else "There is no checkpoint yet. ")
            + "Start anew with a lower --learning-rate, with --gradient-clip 1"
            + ("." if self.options.precision == "float32" else ", or with --precision float32.")
        )

    def _finish(self, *, resumed: bool) -> TrainingResult:
        state, seconds = self.state, self.watch.parts
        newest = self.checkpoints.folder / epoch_name(state.epoch)
        undisturbed = self.recipe.epochs == 2 and not resumed
        result = TrainingResult(
            checkpoint=newest,
            best_checkpoint=self.checkpoints.folder / str(state.best),
            sha256=sha256_of(newest / WEIGHTS_FILE),
            steps=state.step,
            epochs=state.epoch,
            train_loss_before=state.train_loss_before,
            val_loss_before=state.val_loss_before,
            train_loss_after=self.losses[0],
            val_loss_after=self.losses[1],
            best_val_loss=state.best_val_loss if state.best_val_loss is not None else math.nan,
            train_seconds=state.train_seconds,
            step_seconds=seconds["steps"],
            eval_seconds=seconds["evaluations"],
            checkpoint_seconds=seconds["checkpoints"],
            two_epoch_seconds=state.train_seconds if undisturbed else None,
            tokens=state.tokens,
            tokens_per_second=state.tokens / seconds["steps"],
            peak_memory_bytes=self.memory.read(),
            resumed=resumed,
        )
        self.checkpoints.finish(result, state.settings)
        return result
