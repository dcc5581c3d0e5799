"""Training a classifier: chapter 6's recipe, stoppable between any two steps.

Steps are counted as in `training/trainer.py`: both splits are evaluated after step 0, `eval_every`,
twice that, and so on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn import functional as F

from twolevers.classification.data import LabelledText, load_texts
from twolevers.classification.model import Classifier, ClassifierAbout, batch_of, save_classifier
from twolevers.classification.options import ClassifyOptions
from twolevers.classification.predict import log_probabilities
from twolevers.classification.records import ClassifierResult, LabelledData
from twolevers.computing import computing
from twolevers.data.order import batch_order
from twolevers.device import Device
from twolevers.errors import InputError, Problem, RunStopped, TrainingError
from twolevers.interrupt import StopFlag
from twolevers.models.catalog import find_model
from twolevers.models.layout import CONFIG_FILE
from twolevers.models.weights import load_model
from twolevers.progress import Progress
from twolevers.records import WeightsFolder
from twolevers.tracking.protocol import Tracker
from twolevers.training.agreement import LEAST_ROWS, check_agreement
from twolevers.training.checkpoint import FOLDER, Checkpoints, epoch_name
from twolevers.training.memory import PeakMemory
from twolevers.training.optimizer import total_norm
from twolevers.training.precision import autocast, gradient_scaler, synchronise
from twolevers.training.reproducible import reproducible
from twolevers.training.stopwatch import Stopwatch


def train_classifier(
    weights: WeightsFolder,
    data: LabelledData,
    options: ClassifyOptions,
    *,
    device: Device,
    folder: Path,
    tracker: Tracker,
    progress: Progress,
    stop: StopFlag,
) -> ClassifierResult:
    """Adjusts the weights that are to be trained to the labels.

    Args:
        options: resolved: full model name, explicit precision, learning rate set.
        folder: the run's; the classifier goes to `folder/checkpoints`.
        stop: read between steps.

    Raises:
        InputError: the training split does not fill one batch; a text is longer than these weights
            take.
        DeviceError: the device computes something else than the CPU.
        TrainingError: loss or gradient is no finite number, or the checkpoint cannot be written.
        RunStopped: `stop` was set; nothing is kept.
    """
    memory = PeakMemory(device)
    splits = load_texts(data, "train"), load_texts(data, "val")
    recipe = options.training
    with computing(), reproducible(device, recipe.seed, deterministic=recipe.deterministic):
        classifier = _classifier_on(device, weights, data, splits[0], options)
        training = _Training(classifier, *splits, options, device, tracker, progress)
        return training.run(data, folder, memory, stop)


def _classifier_on(
    device: Device,
    weights: WeightsFolder,
    data: LabelledData,
    train: Sequence[LabelledText],
    options: ClassifyOptions,
) -> Classifier:
    """The classifier to train. It is made on the CPU, so that the new layers begin with the same
    numbers on every device."""
    path = weights.path
    has_config = ((path if path.is_dir() else path.parent) / CONFIG_FILE).is_file()
    body = load_model(path, None if has_config else find_model(options.model).config)
    _check_length(min(data.longest, options.data.max_length), body.config.context_length)
    classifier = Classifier(body, len(data.labels))
    classifier.choose_trained(options.training)
    if device.kind != "cpu" and options.run.check_device:
        count = max(LEAST_ROWS, options.training.batch_size)
        texts = [train[index % len(train)] for index in range(count)]

        @torch.no_grad()
        def loss_on(name: str) -> float:
            batch, labels = batch_of(texts)
            logits = classifier.to(name)(batch.to(name))
            return F.cross_entropy(logits, labels.to(name)).item()

        check_agreement(device.name, loss_on)
    return classifier.to(device.name)


def _check_length(longest: int, limit: int) -> None:
    """Weights of one's own may take less than the model of that name."""
    if longest > limit:
        what = f"texts have up to {longest} tokens, and these weights take {limit}"
        raise InputError(Problem("--max-length", None, what, f"cut them: --max-length {limit}"))


class _Training:
    def __init__(
        self,
        classifier: Classifier,
        train: Sequence[LabelledText],
        val: Sequence[LabelledText],
        options: ClassifyOptions,
        device: Device,
        tracker: Tracker,
        progress: Progress,
    ) -> None:
        self.classifier, self.train, self.val = classifier, train, val
        self.options, self.recipe, self.device = options, options.training, device
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
        self.done = self.tokens = 0
        self.epoch_loss = math.nan
        """Over the whole validation split, at the end of the last epoch."""

    def run(
        self, data: LabelledData, folder: Path, memory: PeakMemory, stop: StopFlag
    ) -> ClassifierResult:
        self.watch = Stopwatch()
        self.progress.start("train", self.total_steps, "steps")
        try:
            self.classifier.train()
            with self.watch.measure("evaluations"):
                before = self._evaluate()
            self.progress.note(f"before: {_told(before)}")
            for epoch in range(self.recipe.epochs):
                for indices in self._order(epoch):
                    if stop:
                        raise self._stopped(stop)
                    step = self.done
                    with self.watch.measure("steps"):
                        self._step([self.train[index] for index in indices])
                    if step % self.recipe.eval_every == 0:
                        with self.watch.measure("evaluations"):
                            self._log(self._evaluate(), f"step {step}")
                with self.watch.measure("evaluations"):
                    self._end_epoch(epoch + 1)
            with self.watch.measure("evaluations"):
                after = self._evaluate()
                self._log(after, f"step {self.done - 1}")
            seconds = self.watch.train_seconds
            checkpoint, sha256 = self._save(data, folder)
        finally:
            self.progress.finish()
        parts = self.watch.parts
        return ClassifierResult(
            checkpoint=checkpoint,
            sha256=sha256,
            num_trained=self.num_trained,
            num_parameters=self.num_parameters,
            steps=self.done,
            epochs=self.recipe.epochs,
            train_loss_before=before["train/eval_loss"],
            val_loss_before=before["val/loss"],
            train_loss_after=after["train/eval_loss"],
            val_loss_after=after["val/loss"],
            train_seconds=seconds,
            step_seconds=parts["steps"],
            eval_seconds=parts["evaluations"],
            checkpoint_seconds=parts["checkpoints"],
            tokens=self.tokens,
            tokens_per_second=self.tokens / parts["steps"],
            peak_memory_bytes=memory.read(),
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
        self.tokens += batch.num_tokens
        speed = batch.num_tokens / (time.perf_counter() - started)
        metrics = {
            "train/loss": value,
            "train/grad_norm": norm,
            "train/lr": self.optimizer.param_groups[0]["lr"],
            "train/tokens_per_second": speed,
        }
        self.tracker.log_metrics(metrics, step=self.done, tokens=self.tokens)
        self.done += 1
        self.progress.advance(self.done, loss=value, tokens_per_second=speed)

    def _check(self, what: str, value: float) -> None:
        if math.isfinite(value):
            return
        rate = self.optimizer.param_groups[0]["lr"]
        raise TrainingError(
            f"The {what} is {value} at step {self.done} (learning rate {rate:g}, "
            f"{self.options.precision}); training stopped. Start anew with a lower --learning-rate"
            + ("." if self.options.precision == "float32" else ", or with --precision float32.")
        )

    def _evaluate(self) -> dict[str, float]:
        """Loss and accuracy on the first batches of both splits, as the chapter does."""
        synchronise(self.device)
        count = self.recipe.batch_size * self.recipe.eval_batches
        train_loss, train_accuracy = self._measured(self.train[:count])
        val_loss, val_accuracy = self._measured(self.val[:count])
        return {
            "train/eval_loss": train_loss,
            "val/loss": val_loss,
            "train/accuracy": train_accuracy,
            "val/accuracy": val_accuracy,
        }

    def _measured(self, texts: Sequence[LabelledText]) -> tuple[float, float]:
        logs = log_probabilities(self.classifier, texts, self.device, self.options.precision)
        labels = torch.tensor([text.label for text in texts])
        accuracy = (logs.argmax(-1) == labels).float().mean().item()
        return F.nll_loss(logs, labels).item(), accuracy

    def _log(self, metrics: dict[str, float], when: str) -> None:
        self.tracker.log_metrics(metrics, step=max(self.done - 1, 0), tokens=self.tokens)
        self.progress.note(f"{when}: {_told(metrics)}")

    def _end_epoch(self, epoch: int) -> None:
        """Loss and accuracy over the whole validation split."""
        loss, accuracy = self._measured(self.val)
        metrics = {"val/epoch_loss": loss, "val/epoch_accuracy": accuracy}
        self.tracker.log_metrics(metrics, step=self.done - 1, tokens=self.tokens)
        self.progress.note(f"epoch {epoch}: val {loss:.3f}, {accuracy:.1%} right, whole split")
        self.epoch_loss = loss

    def _save(self, data: LabelledData, folder: Path) -> tuple[Path, str]:
        about = ClassifierAbout(
            data.labels, self.options.data.max_length, self.options.data.cut, self.recipe.train
        )
        name, sha256 = epoch_name(self.recipe.epochs), [""]

        def fill(temporary: Path) -> None:
            sha256[0] = save_classifier(self.classifier, about, temporary)

        with self.watch.measure("checkpoints"):
            checkpoints = Checkpoints(folder / FOLDER)
            checkpoints.write(name, fill, best=name)
            path = checkpoints.folder / name
            metrics = {"val/epoch_loss": self.epoch_loss}
            self.tracker.log_checkpoint(path, step=self.done - 1, metrics=metrics)
        return path, sha256[0]

    def _stopped(self, stop: StopFlag) -> RunStopped:
        return RunStopped(
            f"Stopped after {self.done} of {self.total_steps} steps ({stop.reason or 'asked to'}); "
            "a classifier is kept when it is trained to the end."
        )


def _told(metrics: dict[str, float]) -> str:
    return (
        f"train {metrics['train/eval_loss']:.3f} ({metrics['train/accuracy']:.0%} right), "
        f"val {metrics['val/loss']:.3f} ({metrics['val/accuracy']:.0%} right)"
    )
