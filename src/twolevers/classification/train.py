"""Training a classifier: chapter 6's recipe, from the base weights or on from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn import functional as F

from twolevers.classification.data import LabelledText, load_texts
from twolevers.classification.model import Classifier, ClassifierAbout, batch_of
from twolevers.classification.options import ClassifyOptions
from twolevers.classification.records import ClassifierResult, LabelledData
from twolevers.classification.trainer import ClassifierTrainer
from twolevers.computing import computing
from twolevers.device import Device
from twolevers.errors import InputError, Problem
from twolevers.interrupt import StopFlag
from twolevers.models.catalog import find_model
from twolevers.models.layout import CONFIG_FILE
from twolevers.models.weights import load_model
from twolevers.progress import Progress
from twolevers.records import WeightsFolder
from twolevers.tracking import names
from twolevers.tracking.protocol import Tracker
from twolevers.training.agreement import LEAST_ROWS, check_agreement
from twolevers.training.checkpoint import FOLDER, Checkpoints
from twolevers.training.memory import PeakMemory
from twolevers.training.reproducible import reproducible
from twolevers.training.resume import finished_before, go_on, settings_of


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
    """Adjusts the weights that are to be trained to the labels. Where an earlier call in the same
    folder was stopped or killed, this one goes on, to the same bits.

    Args:
        options: resolved: full model name, explicit precision, learning rate set.
        folder: the run's; the classifier goes to `folder/checkpoints`.
        stop: read between steps.

    Raises:
        InputError: the training split does not fill one batch; a text is longer than these weights
            take; the earlier call in this folder had other data, weights or settings.
        DeviceError: the device computes something else than the CPU.
        TrainingError: loss or gradient is no finite number, or a checkpoint cannot be written.
        RunStopped: `stop` was set; the checkpoint to go on from was written.
    """
    memory, checkpoints, recipe = PeakMemory(device), Checkpoints(folder / FOLDER), options.training
    hashes = {"base weights": weights.sha256, "labelled data": data.sha256}
    settings = settings_of(options, recipe, hashes)
    if result := finished_before(checkpoints, ClassifierResult, settings, recipe.epochs, progress):
        return result
    start, state = go_on(checkpoints, settings, recipe.epochs, progress)
    if start is not None:
        tracker.set_tags({names.RESUMED: start.name})
    checkpoints.remove_leftovers()
    splits = load_texts(data, "train"), load_texts(data, "val")
    about = ClassifierAbout(data.labels, options.data.max_length, options.data.cut, recipe.train)
    with computing(), reproducible(device, recipe.seed, deterministic=recipe.deterministic):
        classifier = _classifier_on(device, weights, data, splits[0], options)
        trainer = ClassifierTrainer(
            classifier, about, *splits, options, device, state, checkpoints, tracker, progress
        )
        return trainer.run(start, memory, stop)


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
