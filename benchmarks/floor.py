"""How near a step comes to what the processor can do, and where the rest of its time goes."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.contestants import Ours
from benchmarks.job import Job, data_file, write_weights
from benchmarks.result import median_of
from twolevers.computing import computing
from twolevers.data.batch import Batch, collate
from twolevers.models.catalog import GPT2Config

READINGS = 7

PARTS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::addmm_"),
    "optimizer": ("aten::_fused_adamw_",),
    "gradient norm": ("aten::linalg_vector_norm",),
    "attention": ("aten::bmm", "aten::baddbmm", "aten::_softmax_backward_data"),
    "GELU and layer norms": (
        "aten::gelu",
        "aten::gelu_backward",
        "aten::native_layer_norm",
        "aten::native_layer_norm_backward",
    ),
    "softmax (loss and attention)": ("aten::_softmax",),
    "copies and changes of precision": ("aten::copy_", "aten::cat"),
    "sums and additions": ("aten::sum", "aten::add", "aten::add_", "aten::mul"),
}
"""PyTorch's operations by what they are for; what is in none of them is the rest."""


@dataclass(frozen=True)
class Floor:
    """What one step needs at least."""

    precision: str
    products: float
    """10⁹ floating-point operations of its matrix products."""
    matrix_rate: float
    """10⁹ operations a second, measured on the products' own shapes."""
    traffic: float
    """10⁹ bytes that must move: parameters, gradients and moments, each once."""
    bandwidth: float
    """10⁹ bytes a second, of a copy that no cache holds."""
    step: float
    """Seconds that a step takes."""
    profile: dict[str, float]
    """Share of a step's time by part."""

    @property
    def seconds(self) -> float:
        return self.products / self.matrix_rate + self.traffic / self.bandwidth

    @property
    def share(self) -> float:
        return self.seconds / self.step


def measure(data: Path, weights: Path, precision: str = "auto") -> Floor:
    job = Job.read(data)
    with computing():
        ours = Ours(job, weights, 5e-5, precision)
        batches = job.batches()[:READINGS]
        ours.step(batches[0])
        seconds = [_timed(lambda rows=rows: ours.step(rows)) for rows in batches]
        profiled = _profile(ours, job)
        config, parameters = ours.model.config, ours.model.num_parameters()
        packed = [collate(rows, share_prefix=True) for rows in batches]
        dtype = torch.bfloat16 if ours.precision == "bfloat16" else torch.float32
        del ours.model, ours.optimizer
        tokens = round(sum(len(b.input_ids) for b in packed) / len(packed))
        rate, bandwidth = _matrix_rate(config, tokens, dtype), _bandwidth()
    return Floor(
        precision=ours.precision,
        products=median_of([_products(config, batch) for batch in packed]) / 1e9,
        matrix_rate=rate,
        # Gradients are written and read; the optimizer reads and writes weights and two moments.
        traffic=parameters * 4 * (2 + 6) / 1e9,
        bandwidth=bandwidth,
        step=median_of(seconds),
        profile=profiled,
    )


def _products(config: GPT2Config, batch: Batch) -> float:
    """Operations of a step: each weight is multiplied three times (forward, and for both
    gradients), two operations a weight and token; the shared prefix is computed once."""
    tokens = len(batch.input_ids)
    weights = config.num_layers * 12 * config.emb_dim**2 + config.vocab_size * config.emb_dim
    return 3 * 2 * weights * tokens


def _matrix_rate(config: GPT2Config, tokens: int, dtype: torch.dtype) -> float:
    """Over the shapes of a block's layers and the output layer, each as often as a step has it."""
    c = config.emb_dim
    shapes = [(3 * c, c), (c, c), (4 * c, c), (c, 4 * c)] * config.num_layers
    shapes.append((config.vocab_size, c))
    work = [
        (torch.randn(tokens, i, dtype=dtype), torch.randn(o, i, dtype=dtype)) for o, i in shapes
    ]

    def once() -> None:
        for x, weight in work:
            torch.mm(x, weight.t())

    once()
    operations = sum(2 * tokens * o * i for o, i in shapes)
    return operations / median_of([_timed(once) for _ in range(READINGS)]) / 1e9


def _bandwidth() -> float:
    source = torch.ones(64 * 2**20)
    target = torch.zeros_like(source)
    seconds = median_of([_timed(lambda: target.copy_(source)) for _ in range(READINGS)])
    return 2 * source.nbytes / seconds / 1e9


def _timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _profile(ours: Ours, job: Job) -> dict[str, float]:
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for rows in job.batches()[:3]:
            ours.step(rows)
    times = {event.key: event.self_cpu_time_total for event in profiled.key_averages()}
    total = sum(times.values())
    shares = {part: sum(times.get(n, 0) for n in names) / total for part, names in PARTS.items()}
    return {**shares, "the rest": 1 - sum(shares.values())}


def report(floor: Floor) -> str:
    lines = [
        f"A step in {floor.precision}: {floor.step:.3f} s.",
        f"Its floor here: {floor.products:,.0f} GFLOP of matrix products at "
        f"{floor.matrix_rate:,.0f} GFLOP/s and {floor.traffic:.1f} GB through memory at "
        f"{floor.bandwidth:.1f} GB/s, {floor.seconds:.3f} s: {floor.share:.0%} of the step.",
        "Where a step's time goes, from a profile:",
        *(f"  {share:6.1%}  {part}" for part, share in floor.profile.items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = write_weights("gpt2-small (124M)", Path(folder) / "weights")
        for name in sys.argv[1:] or ["auto"]:
            print(report(measure(data_file(), found, name)))
