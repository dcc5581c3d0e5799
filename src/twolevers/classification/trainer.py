"""The loop that trains a classifier, stoppable between any two steps.

Steps are counted as in `training/trainer.py`: both splits are evaluated after step 0, `eval_every`,
twice that, and so on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.nn import functional as F

from twolevers.classification.data import LabelledText
from twolevers.classification.model import Classifier, ClassifierAbout, batch_of, save_classifier
from twolevers.classification.options import ClassifyOptions
from twolevers.classification.predict import log_probabilities
from twolevers.classification.records import ClassifierResult
from twolevers.data.order import batch_order
from twolevers.device import Device
from twolevers.errors import RunStopped, TrainingError
from twolevers.files import sha256_of
from twolevers.interrupt import StopFlag
from twolevers.models.layout import WEIGHTS_FILE
from twolevers.progress import Progress
from twolevers.tracking.protocol import Tracker
from twolevers.training.checkpoint import Checkpoints, epoch_name, step_name
from twolevers.training.memory import PeakMemory
from twolevers.training.optimizer import total_norm
from twolevers.training.precision import autocast, gradient_scaler, synchronise
from twolevers.training.resume import stopped
from twolevers.training.stopwatch import Stopwatch
from twolevers.training.trainer_state import TrainerState, restore_state, save_state


class ClassifierTrainer:
    """One training call. `state` says where it stands and is what a checkpoint keeps."""

    def __init__(
        self,
        classifier: Classifier,
        about: ClassifierAbout,
        train: Sequence[LabelledText],
        val: Sequence[LabelledText],
        options: ClassifyOptions,
        device: Device,
        state: TrainerState,
        checkpoints: Checkpoints,
        tracker: Tracker,
        progress: Progress,
    ) -> None:
        self.classifier, self.about, self.train, self.val = classifier, about, train, val
        self.options, self.recipe, self.device = options, options.training, device
        self.state, self.checkpoints = state, checkpoints
        self.tracker, self.progress = tracker, progress
        self.trained = classifier.trained()
        self.optimizer = torch.optim.AdamW(
            self.trained,
            lr=self.recipe.learning_rate or 0.0,
            weight_decay=self.recipe.weight_decay,
            fused=True,
        )
        self.scaler = gradient_scaler(device, options.precision)
        head = sum(parameter.numel() for parameter in classifier.head.parameters())
        self.num_parameters = classifier.body.config.num_parameters + head
        self.num_trained = sum(parameter.numel() for parameter in self.trained)
        self.total_steps = len(self._order(0)) * self.recipe.epochs
        self.figures: dict[str, float] = {}
        """What the last evaluation found."""
        self.evaluated_at = self.saved_at = -1

    def run(self, start: Path | None, memory: PeakMemory, stop: StopFlag) -> ClassifierResult:
        """Trains to the end, from where `start` stood if there is one."""
        state = self.state
        self.progress.start("train", self.total_steps, "steps")
        try:
            if start is not None:
                restore_state(
                    start, state, self.classifier, self.optimizer, self.scaler, self.device
                )
                self.saved_at = state.step
            self.watch = Stopwatch.continued(state.seconds, state.train_seconds)
            self.classifier.train()
            if start is None:
                with self.watch.measure("evaluations"):
                    self._evaluate()
                state.train_loss_before = self.figures["train/eval_loss"]
                state.val_loss_before = self.figures["val/loss"]
                self._note("before")
            while state.epoch < self.recipe.epochs:
                self._epoch(stop)
                if state.epoch < self.recipe.epochs:
                    self._write_checkpoint()
            if self.evaluated_at != state.step:
                self._evaluate_and_log()
            checkpoint = self._save()
        finally:
            self.progress.finish()
        parts = self.watch.parts
        result = ClassifierResult(
            checkpoint=checkpoint,
            sha256=sha256_of(checkpoint / WEIGHTS_FILE),
            num_trained=self.num_trained,
            num_parameters=self.num_parameters,
            steps=state.step,
            epochs=state.epoch,
            train_loss_before=state.train_loss_before,
            val_loss_before=state.val_loss_before,
            train_loss_after=self.figures["train/eval_loss"],
            val_loss_after=self.figures["val/loss"],
            train_seconds=state.train_seconds,
            step_seconds=parts["steps"],
            eval_seconds=parts["evaluations"],
            checkpoint_seconds=parts["checkpoints"],
            tokens=state.tokens,
            tokens_per_second=state.tokens / parts["steps"],
            peak_memory_bytes=memory.read(),
        )
        self.checkpoints.finish(result, state.settings)
        return result

    def _epoch(self, stop: StopFlag) -> None:
        """The running epoch to its end, then loss and accuracy over the whole validation split."""
        state = self.state
        for indices in self._order(state.epoch)[state.batches :]:
            if stop:
                raise self._stopped(stop)
            step = state.step
            with self.watch.measure("steps"):
                self._step([self.train[index] for index in indices])
            if step % self.recipe.eval_every == 0:
                self._evaluate_and_log()
        with self.watch.measure("evaluations"):
            loss, accuracy = self._measured(self.val)
        self._check("validation loss", loss)
        metrics = {"val/epoch_loss": loss, "val/epoch_accuracy": accuracy}
        self.tracker.log_metrics(metrics, step=state.step - 1, tokens=state.tokens)
        state.epoch, state.batches = state.epoch + 1, 0
        # The classifier kept is that of the last epoch, whatever its loss.
        state.best_val_loss = loss
        self.progress.note(
            f"epoch {state.epoch}: val {loss:.3f}, {accuracy:.1%} right, whole split"
        )

    def _order(self, epoch: int) -> list[list[int]]:
        recipe = self.recipe
        return batch_order(
            len(self.train),
            recipe.batch_size,
            seed=recipe.seed,
            epoch=epoch,
            drop_last=recipe.drop_last,
        )

    def _step(self, texts: Sequence[LabelledText]) -> None:
        """One update by the mean loss of the batch's texts."""
        started = time.perf_counter()
        batch, labels = batch_of(texts)
        with autocast(self.device, self.options.precision):
            logits = self.classifier(batch.to(self.device.name))
        loss = F.cross_entropy(logits.float(), labels.to(self.device.name))
        self.scaler.scale(loss).backward()
        value = loss.item()
        self._check("loss", value)
        self.scaler.unscale_(self.optimizer)
        norm = total_norm([p.grad for p in self.trained if p.grad is not None]).item()
        if not self.scaler.is_enabled():  # else the scaler skips the step
            self._check("gradient's norm", norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.state.tokens += batch.num_tokens
        speed = batch.num_tokens / (time.perf_counter() - started)
        metrics = {
            "train/loss": value,
            "train/grad_norm": norm,
            "train/lr": self.optimizer.param_groups[0]["lr"],
            "train/tokens_per_second": speed,
        }
        self.tracker.log_metrics(metrics, step=self.state.step, tokens=self.state.tokens)
        self.state.step += 1
        self.state.batches += 1
        self.progress.advance(self.state.step, loss=value, tokens_per_second=speed)

    def _check(self, what: str, value: float) -> None:
        if math.isfinite(value):
            return
        rate = self.optimizer.param_groups[0]["lr"]
        raise TrainingError(
            f"The {what} is {value} at step {self.state.step} (learning rate {rate:g}, "
            f"{self.options.precision}); training stopped. Start anew with a lower --learning-rate"
            + ("." if self.options.precision == "float32" else ", or with --precision float32.")
        )

    def _evaluate(self) -> None:
        """Loss and accuracy on the first batches of both splits, as the chapter does."""
        synchronise(self.device)
        count = self.recipe.batch_size * self.recipe.eval_batches
        train_loss, train_accuracy = self._measured(self.train[:count])
        val_loss, val_accuracy = self._measured(self.val[:count])
        self.figures = {
            "train/eval_loss": train_loss,
            "val/loss": val_loss,
            "train/accuracy": train_accuracy,
            "val/accuracy": val_accuracy,
        }
        self.evaluated_at = self.state.step

    def _measured(self, texts: Sequence[LabelledText]) -> tuple[float, float]:
        logs = log_probabilities(self.classifier, texts, self.device, self.options.precision)
        labels = torch.tensor([text.label for text in texts])
        accuracy = (logs.argmax(-1) == labels).float().mean().item()
        return F.nll_loss(logs, labels).item(), accuracy

    def _evaluate_and_log(self) -> None:
        step = self.state.step - 1
        with self.watch.measure("evaluations"):
            self._evaluate()
        self.tracker.log_metrics(self.figures, step=step, tokens=self.state.tokens)
        self._note(f"step {step}")

    def _note(self, when: str) -> None:
        found = self.figures
        self.progress.note(
            f"{when}: train {found['train/eval_loss']:.3f} ({found['train/accuracy']:.0%} right), "
            f"val {found['val/loss']:.3f} ({found['val/accuracy']:.0%} right)"
        )

    def _write_checkpoint(self) -> None:
        """Where training stands, without a classifier that could be asked."""
        self._write(step_name(self.state.step), self._save_state)
        self.saved_at = self.state.step
        self.tracker.send_soon()  # whoever goes on from here finds the metrics of all steps before

    def _save(self) -> Path:
        """The classifier; where training stands stays beside it until the result is noted."""
        name = self.state.best = epoch_name(self.state.epoch)

        def fill(folder: Path) -> None:
            self._save_state(folder)  # first: saving the classifier merges the updates of lora
            save_classifier(self.classifier, self.about, folder)

        self._write(name, fill)
        path = self.checkpoints.folder / name
        metrics = {"val/epoch_loss": self.state.best_val_loss or 0.0}
        self.tracker.log_checkpoint(path, step=self.state.step - 1, metrics=metrics)
        return path

    def _write(self, name: str, fill: Callable[[Path], None]) -> None:
        self.state.train_seconds = self.watch.train_seconds
        self.state.seconds = dict(self.watch.parts)
        with self.watch.measure("checkpoints"):
            self.checkpoints.write(name, fill, best=self.state.best)

    def _save_state(self, folder: Path) -> None:
        save_state(
            folder,
            self.state,
            self.classifier,
            self.optimizer,
            self.scaler,
            self.device,
            with_trained=True,
        )

    def _stopped(self, stop: StopFlag) -> RunStopped:
        """Writes where training stands, unless the newest checkpoint says so already."""
        if self.state.step not in (0, self.saved_at):
            self._write_checkpoint()
        return stopped(stop, self.state, self.total_steps, self.checkpoints.newest())
