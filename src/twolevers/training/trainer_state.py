"""What a stopped run needs beside its weights to go on as if nothing had happened.

Two files in the newest checkpoint: `trainer_state.json` (where training stands) and
`trainer_state.safetensors` (the optimizer's moments, the state of the random numbers).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from twolevers.device import Device
from twolevers.errors import TrainingError
from twolevers.files import read_json, write_json
from twolevers.models.layout import WEIGHTS_FILE
from twolevers.training.optimizer import moments, restore_moments, trained

STATE_FILES = ("trainer_state.json", "trainer_state.safetensors")
"""The first is removed first: a folder without it has no trainer state."""
TRAINED = "trained"


@dataclass
class TrainerState:
    """Where training stands, between two steps."""

    settings: dict[str, Any]
    """What must not change when training goes on."""
    step: int = 0
    """Optimizer steps done."""
    epoch: int = 0
    """Epochs done, checkpoint included."""
    batches: int = 0
    """Batches of the running epoch that were trained on."""
    tokens: int = 0
    train_loss_before: float = 0.0
    val_loss_before: float = 0.0
    best: str | None = None
    """Name of the checkpoint with the lowest loss over the whole validation split."""
    best_val_loss: float | None = None
    train_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    """Parts of the time, as `Stopwatch` has them."""
    updates: int = 0
    """Updates that the optimizer has counted."""
    scaler: dict[str, Any] = field(default_factory=dict)
    """State of the loss scaling; empty but for float16."""
    device: str = "cpu"


def save_state(
    folder: Path,
    state: TrainerState,
    model: nn.Module,
    optimizer: torch.optim.AdamW,
    scaler: torch.amp.GradScaler,
    device: Device,
    *,
    with_trained: bool = False,
) -> None:
    """Writes both files into an existing folder.

    Args:
        with_trained: the parameters that training changes too, as `trained.NAME`, where the
            folder holds no weights that training could go on from.
    """
    state.updates, tensors = moments(model, optimizer)
    if with_trained:
        tensors |= {f"{TRAINED}.{name}": parameter.detach() for name, parameter in trained(model)}
    state.scaler, state.device = scaler.state_dict(), device.name
    save_file({**tensors, **_random_state(device)}, folder / STATE_FILES[1])
    write_json(folder / STATE_FILES[0], asdict(state))


def load_state(folder: Path) -> TrainerState:
    """Where the checkpoint's training stood.

    Raises:
        TrainingError: the file is no trainer state.
    """
    try:
        return TrainerState(**read_json(folder / STATE_FILES[0]))
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(folder, error) from error


def restore_state(
    folder: Path,
    state: TrainerState,
    model: nn.Module,
    optimizer: torch.optim.AdamW,
    scaler: torch.amp.GradScaler,
    device: Device,
) -> None:
    """Puts back the moments, the trained parameters where they were written too, the loss scaling
    and the random numbers.

    The random numbers of another kind of device than this one cannot be continued; there
    dropout starts from the seed.

    Raises:
        TrainingError: the file is missing or damaged, or belongs to another model.
    """
    try:
        tensors = load_file(folder / STATE_FILES[1])
        restore_moments(model, optimizer, state.updates, tensors)
        if any(name.startswith(f"{TRAINED}.") for name in tensors):
            with torch.no_grad():
                for name, parameter in trained(model):
                    parameter.copy_(tensors[f"{TRAINED}.{name}"])
        torch.set_rng_state(tensors["random.cpu"])
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        raise _unreadable(folder, error) from error
    if state.scaler:
        scaler.load_state_dict(state.scaler)
    if f"random.{device.kind}" in tensors:
        _set_random_state(device, tensors[f"random.{device.kind}"])


def remove_state(folder: Path) -> None:
    """Leaves the checkpoint as a plain model folder."""
    for name in STATE_FILES:
        (folder / name).unlink(missing_ok=True)


def _random_state(device: Device) -> dict[str, Tensor]:
    states = {"random.cpu": torch.get_rng_state()}
    if device.kind == "cuda":
        states["random.cuda"] = torch.cuda.get_rng_state(device.name)
    elif device.kind == "mps":
        states["random.mps"] = torch.mps.get_rng_state()
    return states


def _set_random_state(device: Device, state: Tensor) -> None:
    if device.kind == "cuda":
        torch.cuda.set_rng_state(state, device.name)
    elif device.kind == "mps":
        torch.mps.set_rng_state(state)


def _unreadable(folder: Path, error: Exception) -> TrainingError:
    return TrainingError(
        f"The trainer state in {folder} cannot be read ({error}), so training cannot go on from "
        "there. "
        + (
            f"Its weights can be trained further in a new run: --weights {folder}"
            if (folder / WEIGHTS_FILE).is_file()
            else "Start a new run."
        )
    )
