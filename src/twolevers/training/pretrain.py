"""Pretraining of a small GPT-2 on a closed vocabulary, exact and deterministic.

Most of the 50,257 tokens never occur in a small corpus. All rows of the embedding that do not
occur share one vector during training: the softmax over the full vocabulary is then

    logsumexp(logits of the tokens in use, logit of the shared row + log(number of the others))

which is the same number at a thirtieth of the work. At the end every unused row is that vector
plus a little noise, so that fine-tuning can tell the rows apart.

Everything random comes from generators made here from one seed; the same seed, CPU and number
of threads give the same bits.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.files import atomic_folder, sha256_of, write_json
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2, Attend
from twolevers.training.pretrain_start import prepare_to_copy

OnStep = Callable[[int, int, float, float], None]
"""`on_step(step, total, loss, tokens_per_second)`, after each step."""

_LAST = 50


@dataclass(frozen=True)
class PretrainOptions:
    """How to pretrain.

    A step reads `rows` rows of `block` tokens, documents end to end; each document sees itself
    alone. Its positions start at random between 0 and `max_offset`, so that no pattern is bound
    to a place. The first `echo_steps` read no text but echoes, random tokens told three times,
    and of later documents `echo_share` are echoes: a model that can copy learns sooner what to
    copy. `learning_rate` rises over `warmup` steps and falls along a cosine to a twentieth.
    """

    steps: int = 8_500
    rows: int = 16
    block: int = 128
    max_offset: int = 90
    echo_steps: int = 100
    echo_share: float = 0.1
    learning_rate: float = 1.5e-3
    warmup: int = 50
    weight_decay: float = 0.1
    noise: float = 0.05
    seed: int = 123

    @property
    def tokens_per_step(self) -> int:
        return self.rows * self.block


@dataclass(frozen=True)
class PretrainedModel:
    """A model with its full vocabulary; `last_loss` is the mean of its last 50 steps, in nats
    per token; `tokens` counts what it read."""

    model: GPT2
    last_loss: float
    tokens: int


def pretrain(
    documents: Iterator[Sequence[int]],
    used_ids: Sequence[int],
    config: GPT2Config,
    options: PretrainOptions,
    *,
    on_step: OnStep | None = None,
    on_checkpoint: Callable[[int, PretrainedModel], None] | None = None,
    checkpoint_steps: int = 0,
) -> PretrainedModel:
    """Train from random weights.

    Args:
        documents: token ids of one document after another, each with its end of text.
        used_ids: the tokens that occur; any other is read as one unknown token.
        config: sizes of the model, with the full vocabulary.
        options: how to train.
        on_step: called after each step.
        on_checkpoint: called with the model as it stands, every `checkpoint_steps` steps.
        checkpoint_steps: 0 for none.
    """
    used = torch.tensor(sorted(set(used_ids)))
    to_compact = torch.full((config.vocab_size,), len(used))
    to_compact[used] = torch.arange(len(used))
    # The last row stands for every token that is not in use.
    model = GPT2(replace(config, vocab_size=len(used) + 1)).initialise(options.seed)
    prepare_to_copy(model, options.seed)
    bias = torch.zeros(len(used) + 1)
    bias[-1] = math.log(config.vocab_size - len(used))

    optimizer = _optimizer(model, options)
    generator = torch.Generator().manual_seed(options.seed)
    losses: list[float] = []
    began = time.perf_counter()
    tokens = 0
    for step, ids in enumerate(_blocks(documents, used, options)):
        positions, attend = documents_alone(ids[:-1].view(-1, options.block), options, generator)
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * _schedule(step, options)
        ids = to_compact[ids]
        hidden = model(ids[:-1], positions, attend)
        loss = F.cross_entropy(model.logits(hidden) + bias, ids[1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

        done = step + 1
        tokens += options.tokens_per_step
        losses = [*losses[1 - _LAST :], loss.item()]
        if on_step:
            rate = tokens / (time.perf_counter() - began)
            on_step(done, options.steps, losses[-1], rate)
        if on_checkpoint and checkpoint_steps and done % checkpoint_steps == 0:
            on_checkpoint(done, _with_full_vocabulary(model, config, used, losses, tokens, options))
    return _with_full_vocabulary(model, config, used, losses, tokens, options)


def _blocks(
    documents: Iterator[Sequence[int]], used: Tensor, options: PretrainOptions
) -> Iterator[Tensor]:
    """The tokens of a step and the one that follows, (rows * block + 1,); the next step begins
    with that one."""
    generator = torch.Generator().manual_seed(options.seed + 3)
    size = options.tokens_per_step + 1
    stream: list[int] = []
    for step in range(options.steps):
        share = 1.0 if step < options.echo_steps else options.echo_share
        while len(stream) < size:
            echo = share > 0 and torch.rand((), generator=generator).item() < share
            stream += _echo(used, generator) if echo else next(documents)
        yield torch.tensor(stream[:size])
        stream = stream[size - 1 :]


def _echo(used: Tensor, generator: torch.Generator) -> list[int]:
    """5 to 19 random tokens, told three times: only copying foresees them."""
    length = int(torch.randint(5, 20, (1,), generator=generator))
    told: list[int] = used[torch.randint(len(used), (length,), generator=generator)].tolist()
    return [*told * 3, END_OF_TEXT]


def documents_alone(
    rows: Tensor, options: PretrainOptions, generator: torch.Generator
) -> tuple[Tensor, Attend]:
    """Positions (B * T,) and attention for rows (B, T) of documents that each see themselves
    alone; a document ends with its end of text."""
    b, t = rows.shape
    ends = (rows == END_OF_TEXT).long()
    document = ends.cumsum(1) - ends  # (B, T): its number within the row
    begins = torch.ones_like(document, dtype=torch.bool)
    begins[:, 1:] = document[:, 1:] != document[:, :-1]
    places = torch.arange(t).expand(b, t)
    start = torch.where(begins, places, 0).cummax(1).values
    offsets = torch.randint(options.max_offset + 1, (b, t), generator=generator)
    positions = places - start + offsets.gather(1, document)
    same = document[:, :, None] == document[:, None, :]
    mask = (same & torch.ones(t, t, dtype=torch.bool).tril())[:, None]  # (B, 1, T, T)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # (B * T, H, D) -> (B, H, T, D)
        q, k, v = (x.unflatten(0, (b, t)).transpose(1, 2) for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.transpose(1, 2).flatten(0, 1)

    return positions.flatten(), attend


def _optimizer(model: GPT2, options: PretrainOptions) -> torch.optim.Optimizer:
    """AdamW; biases and layer norms do not decay."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups: list[dict[str, Any]] = [
        {"params": matrices},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=options.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=options.weight_decay,
        fused=True,
    )


def _schedule(step: int, options: PretrainOptions) -> float:
    """Factor on the learning rate: linear up, then a cosine down to 1/20."""
    if step < options.warmup:
        return (step + 1) / options.warmup
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done))


@torch.no_grad()
def _with_full_vocabulary(
    compact: GPT2,
    config: GPT2Config,
    used: Tensor,
    losses: Sequence[float],
    tokens: int,
    options: PretrainOptions,
) -> PretrainedModel:
    """The same model with every token: used rows in place, the shared one everywhere else."""
    generator = torch.Generator().manual_seed(options.seed + 1)
    rows = torch.empty(config.vocab_size, config.emb_dim)
    rows.normal_(0.0, options.noise, generator=generator)
    rows += compact.wte.weight[-1]
    rows[used] = compact.wte.weight[:-1]
    model = GPT2(config)
    model.load_state_dict({**compact.state_dict(), "wte.weight": rows})
    return PretrainedModel(model, sum(losses) / max(1, len(losses)), tokens)


def write_pretrained(
    pretrained: PretrainedModel,
    folder: Path,
    options: PretrainOptions,
    *,
    steps: int,
    seconds: float,
    command: str,
) -> None:
    """Write the Hugging Face folder in float16, with `pretraining.json` beside the weights:
    the file's hash, and what it took to make it (`seconds` of wall-clock, `steps` of them)."""
    config = pretrained.model.config
    with atomic_folder(folder) as temporary:
        weights = temporary / "model.safetensors"
        # Conv1D of the published checkpoints keeps its weights transposed against nn.Linear.
        tensors = {
            name: (t.T if ".c_" in name and t.dim() == 2 else t).half().contiguous()
            for name, t in pretrained.model.state_dict().items()
        }
        save_file(tensors, weights, metadata={"format": "pt"})
        write_json(
            temporary / "config.json",
            {
                "activation_function": "gelu_new",
                "architectures": ["GPT2LMHeadModel"],
                "attn_pdrop": config.dropout,
                "bos_token_id": 50256,
                "embd_pdrop": config.dropout,
                "eos_token_id": 50256,
                "initializer_range": 0.02,
                "layer_norm_epsilon": 1e-5,
                "model_type": "gpt2",
                "n_embd": config.emb_dim,
                "n_head": config.num_heads,
                "n_layer": config.num_layers,
                "n_positions": config.context_length,
                "resid_pdrop": config.dropout,
                "tie_word_embeddings": True,
                "vocab_size": config.vocab_size,
            },
        )
        write_json(
            temporary / "pretraining.json",
            {
                "sha256": sha256_of(weights),
                "command": command,
                "seconds": round(seconds, 1),
                "steps": steps,
                "tokens": pretrained.tokens,
                "last_loss": round(pretrained.last_loss, 4),
                "threads": torch.get_num_threads(),
                "processor": processor_name(),
                "torch": torch.__version__,
                "date": datetime.now(UTC).date().isoformat(),
                "options": asdict(options),
            },
        )


def processor_name() -> str:
    """The processor's name, for people."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
