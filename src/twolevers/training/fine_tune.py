"""Fine-tuning: from base weights and tokenised data to a checkpoint; `trainer.py` is the loop."""

from __future__ import annotations

from pathlib import Path

from twolevers.computing import computing
from twolevers.data.split import load_split
from twolevers.device import Device
from twolevers.errors import InputError, Problem
from twolevers.interrupt import StopFlag
from twolevers.models.catalog import find_model
from twolevers.models.gpt2 import GPT2
from twolevers.models.layout import CONFIG_FILE
from twolevers.models.weights import load_model
from twolevers.options import FineTuneOptions
from twolevers.progress import Progress
from twolevers.records import TokenisedData, TrainingResult, WeightsFolder
from twolevers.tracking.protocol import Tracker
from twolevers.training.agreement import agreement_batch, check_agreement
from twolevers.training.checkpoint import FOLDER, Checkpoints
from twolevers.training.loss import mean_loss
from twolevers.training.memory import PeakMemory
from twolevers.training.reproducible import reproducible
from twolevers.training.resume import finished_before, go_on, settings_of
from twolevers.training.trainer import Splits, Trainer
from twolevers.training.trainer_state import TrainerState


def fine_tune(
    weights: WeightsFolder,
    data: TokenisedData,
    options: FineTuneOptions,
    *,
    device: Device,
    folder: Path,
    tracker: Tracker,
    progress: Progress,
    stop: StopFlag,
    resume: bool = False,
) -> TrainingResult:
    """Adjusts the weights to the data.

    Args:
        options: resolved: full model name, explicit precision, learning rate set.
        folder: the run's; checkpoints go to `folder/checkpoints`.
        stop: read between steps.
        resume: go on from the newest checkpoint in `folder`; the weights end with the same bits
            as without the break. Where training had finished, its result is returned again.

    Raises:
        InputError: the options fit neither the data nor, on resume, the run.
        DeviceError: the device computes something else than the CPU.
        TrainingError: loss or gradient is no finite number, or a checkpoint cannot be written.
        RunStopped: `stop` was set; the checkpoint to go on from was written.
    """
    memory = PeakMemory(device)
    checkpoints = Checkpoints(folder / FOLDER, options.run.keep_checkpoints)
    hashes = {"base weights": weights.sha256, "tokenised data": data.sha256}
    settings, epochs = settings_of(options, options.training, hashes), options.training.epochs
    start, state = None, TrainerState(settings)
    if resume:
        if result := finished_before(checkpoints, TrainingResult, settings, epochs, progress):
            return result
        start, state = go_on(checkpoints, settings, epochs, progress)
        if start is None:
            progress.note("No checkpoint to go on from: training starts from the beginning.")
    elif checkpoints.all():
        raise InputError(
            Problem(
                "run folder",
                str(folder),
                "it holds checkpoints already",
                "resume that run, or start the new one in a folder of its own",
            )
        )
    checkpoints.remove_leftovers()

    splits = Splits(load_split(data, "train"), load_split(data, "val"))
    deterministic = options.training.deterministic
    with (
        computing(),
        reproducible(device, options.training.seed, deterministic=deterministic),
    ):
        model = _model_on(device, weights, start, splits, options)
        trainer = Trainer(
            model, splits, options, device, state, checkpoints, tracker, progress, memory
        )
        return trainer.run(start, stop)


def _model_on(
    device: Device,
    weights: WeightsFolder,
    start: Path | None,
    splits: Splits,
    options: FineTuneOptions,
) -> GPT2:
    """The model to train: on the device, after that has shown that it computes as the CPU does."""
    path = start or weights.path
    has_config = ((path if path.is_dir() else path.parent) / CONFIG_FILE).is_file()
    checked = device.kind != "cpu" and options.run.check_device
    model = load_model(
        path,
        None if has_config else find_model(options.model).config,
        dropout=options.training.dropout,
        gradient_checkpointing=options.training.gradient_checkpointing,
        device="cpu" if checked else device.name,
    )
    if checked:
        batch = agreement_batch(splits.train, options.training.batch_size)

        def loss_on(name: str) -> float:
            return mean_loss(model.to(name), [batch])

        check_agreement(device.name, loss_on)
    return model.to(device.name)
