"""Before a run: will it fit, and how long will it take?

Memory is worked out: parameters are held four times in float32 (weights, gradients and AdamW's
two moments), activations are what one block keeps for its backward pass, seen on the real batch of
most tokens, times the blocks. Time is measured, by earlier runs of the same workload on the same
device or by a few real steps; where neither can be had it stays empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import torch
from torch import Tensor

from twolevers import primitives
from twolevers.data.batch import Batch, Row, collate
from twolevers.device import Device
from twolevers.errors import InputError, Problem
from twolevers.models.attention import causal_within
from twolevers.models.catalog import MODELS, GPT2Config, ModelEntry
from twolevers.models.gpt2 import Block
from twolevers.report.texts import seconds_text
from twolevers.training.loss import CHUNK_BYTES
from twolevers.training.precision import DTYPES

FLOAT = 4
"""Bytes of a float32."""


@dataclass(frozen=True)
class MemoryForecast:
    """Peak memory of training in bytes: resident in the process on a CPU, else on the device."""

    process: int
    """What the process holds before it trains; nothing on a GPU, which holds none of it."""
    weights: int
    gradients: int
    optimizer: int
    activations: int
    """Those kept for the backward pass, and one chunk of the loss."""

    @property
    def total(self) -> int:
        return self.process + self.weights + self.gradients + self.optimizer + self.activations

    def __str__(self) -> str:
        parts = {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "the process itself": self.process,
        }
        listed = ", ".join(f"{name} {size_text(size)}" for name, size in parts.items() if size)
        return f"{size_text(self.total)} ({listed})"


@dataclass(frozen=True)
class TimeForecast:
    """Wall clock of the training call in seconds, checkpoints not counted."""

    seconds: float
    low: float
    """0 where nothing is known of it."""
    high: float | None
    """None where nothing is known of it, and how near `seconds` is neither."""
    source: str
    """What it was taken from: `3 earlier runs`, `8 steps timed here`."""

    def __str__(self) -> str:
        if self.high is None:
            return f"about {seconds_text(self.seconds)} (from {self.source})"
        if not self.low:
            return f"{seconds_text(self.high)} at most (from {self.source})"
        middle, low, high = map(seconds_text, (self.seconds, self.low, self.high))
        return f"about {middle} ({low} to {high}, from {self.source})"


def forecast_memory(
    config: GPT2Config,
    batch: list[Row],
    *,
    kind: str,
    precision: str,
    dropout: float = 0.0,
    gradient_checkpointing: bool = False,
    process: int = 0,
) -> MemoryForecast:
    """Peak memory of training a model of that size.

    Args:
        batch: the rows of the batch of most tokens.
        kind: of the device: `cpu`, `mps`, `cuda`.
        precision: resolved.
        process: bytes that the process holds before.
    """
    parameters = FLOAT * config.num_parameters
    rows = collate(batch, share_prefix=dropout == 0)
    block, copies = _kept_by_block(replace(config, dropout=dropout), rows, precision)
    positions = len(rows.input_ids)
    stream = FLOAT * positions * config.emb_dim
    layers = config.num_layers
    activations = block + stream * layers if gradient_checkpointing else block * layers
    # Behind the blocks: the last norm, the hidden states' gradient, one chunk of logits.
    activations += 3 * stream + CHUNK_BYTES.get(kind, CHUNK_BYTES["cpu"])
    if precision != "float32":
        activations += config.vocab_size * config.emb_dim * FLOAT // 2  # the output layer's weights
        process += primitives.BYTES
    return MemoryForecast(
        process=process if kind == "cpu" else 0,
        weights=parameters + copies * layers,
        gradients=parameters,
        optimizer=2 * parameters,
        activations=activations,
    )


def _kept_by_block(config: GPT2Config, batch: Batch, precision: str) -> tuple[int, int]:
    """Bytes one block keeps for its backward pass, and those of its weights in `precision`.

    Seen on a real forward pass on the CPU, through the hooks that autograd offers for it.
    """
    with torch.device("meta"):
        block = Block(config, layer=0)
    block.to_empty(device="cpu")  # its values play no part
    own = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    sizes = {parameter.shape for parameter in block.parameters()}
    sizes |= {shape[::-1] for shape in sizes}
    kept: dict[int, tuple[int, bool]] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes(), tensor.shape in sizes
        return tensor

    held: list[Tensor] = []  # a freed tensor's address may come again

    def hold(tensor: Tensor) -> Tensor:
        held.append(tensor)
        return note(tensor)

    dtype = DTYPES.get(precision)
    x = torch.zeros(len(batch.input_ids), config.emb_dim, requires_grad=True)
    with (
        torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor),
        torch.autocast("cpu", dtype=dtype, enabled=dtype is not None),
    ):
        block(x, causal_within(batch.lengths, batch.prefix))
    copies = sum(size for size, is_weight in kept.values() if is_weight)
    return sum(size for size, _ in kept.values()) - copies, copies


def not_fitting(model: ModelEntry, device: Device, memory: MemoryForecast) -> InputError | None:
    """Why it does not fit into the device's memory, with both levers named; None where it does."""
    if not device.memory_bytes or memory.total <= device.memory_bytes:
        return None
    smaller = [
        entry.name
        for entry in MODELS.values()
        if entry.config.num_parameters < model.config.num_parameters
    ]
    ways = [
        f"a smaller model (--model '{smaller[-1]}')" if smaller else "",
        f"a device with more memory than {device.label}",
        "--gradient-checkpointing or a smaller --batch-size, which need less",
    ]
    return InputError(
        Problem(
            "memory",
            None,
            f"{model.name} needs about {memory} and {device.name} has "
            f"{size_text(device.memory_bytes)}",
            f"choose {', or '.join(way for way in ways if way)}; --no-check-memory starts "
            "nevertheless",
        )
    )


def from_earlier_runs(seconds: Sequence[float]) -> TimeForecast:
    """The time that runs of the same workload took on the same device, one or more.

    A few runs say little of their spread: at least a tenth to each side is assumed.
    """
    middle = median(seconds)
    low, high = min(*seconds, 0.9 * middle), max(*seconds, 1.1 * middle)
    source = f"{len(seconds)} earlier run{'s' * (len(seconds) != 1)}"
    return TimeForecast(middle, low, high, source)


def size_text(size: int) -> str:
    """`811 MiB`, `2.41 GiB`."""
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:,.2f} GiB"
