"""The ways of doing the work. Each runs in a process of its own, as its user would run it.

A contestant trains on the same batches in the same order, from the same weights, and is asked for
one reading at a time, so that the contestants alternate and the machine's moods meet them all.

`python -m benchmarks.contestants NAME DATA WEIGHTS RATE` reads one task a line (`steps`,
`validate`, `generate`, `losses 60`, `peak`) and answers each with one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import plain
from benchmarks.job import BATCH_SIZE, NEW_TOKENS, Job
from twolevers.computing import computing
from twolevers.data.batch import collate
from twolevers.data.row import Row
from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.device import find_device, find_precision
from twolevers.generation.generate import complete
from twolevers.models.weights import load_model, read_config
from twolevers.options import GenerationOptions, TrainingOptions
from twolevers.training.evaluate import joined_batches
from twolevers.training.loss import mean_loss
from twolevers.training.memory import PeakMemory
from twolevers.training.optimizer import make_optimizer
from twolevers.training.precision import autocast, gradient_scaler
from twolevers.training.step import optimizer_step

STEPS_A_READING = 3


class Contestant(ABC):
    """One way to train, validate and generate."""

    def __init__(self, job: Job, learning_rate: float) -> None:
        self.job, self.learning_rate = job, learning_rate

    @abstractmethod
    def step(self, rows: Sequence[Row]) -> float:
        """One optimizer step; the loss before it."""

    @abstractmethod
    def validate(self) -> float:
        """Mean loss over the validation split, every token counted the same."""

    @abstractmethod
    def generate(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        """The likeliest `NEW_TOKENS` tokens behind each prompt."""

    def num_prompts(self) -> int:
        """Prompts of one reading."""
        return len(self.job.prompts)


class Plain(Contestant):
    """`plain.py`, in float32."""

    def __init__(self, job: Job, weights: Path, rate: float, *, tied: bool = False) -> None:
        super().__init__(job, rate)
        self.model = plain_model(weights, tied=tied)
        self.optimizer = plain.make_optimizer(self.model, rate)

    def step(self, rows: Sequence[Row]) -> float:
        return plain.step(
            self.model, self.optimizer, *plain.pad([list(row.token_ids) for row in rows])
        )

    def validate(self) -> float:
        return plain.validation_loss(self.model, self._val(), mean_of_batches=False)

    def generate(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        self.model.eval()
        answers = [plain.generate(self.model, prompt, NEW_TOKENS) for prompt in prompts]
        self.model.train()
        return answers

    def num_prompts(self) -> int:
        return len(self.job.prompts) if os.environ.get("BENCH_FULL") else 4

    def _val(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for start in range(0, len(self.job.val), BATCH_SIZE):
            yield plain.pad([list(r.token_ids) for r in self.job.val[start : start + BATCH_SIZE]])


class HuggingFace(Contestant):
    """`GPT2LMHeadModel` as its documentation trains it, padded, with PyTorch's own AdamW."""

    def __init__(self, job: Job, weights: Path, rate: float, dtype: torch.dtype) -> None:
        from transformers import GPT2LMHeadModel

        super().__init__(job, rate)
        self.model = GPT2LMHeadModel.from_pretrained(weights, dtype=dtype).train()
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # as the chapter
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, weight_decay=0.1)

    def step(self, rows: Sequence[Row]) -> float:
        self.optimizer.zero_grad()
        loss = self._loss(rows)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        total = tokens = 0.0
        for start in range(0, len(self.job.val), BATCH_SIZE):
            rows = self.job.val[start : start + BATCH_SIZE]
            count = sum(len(row.token_ids) - 1 for row in rows)
            total += self._loss(rows).item() * count
            tokens += count
        self.model.train()
        return total / tokens

    def generate(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        """Batches of 8 with the cache, padded on the left as the documentation says."""
        self.model.eval()
        answers = []
        for start in range(0, len(prompts), BATCH_SIZE):
            group = prompts[start : start + BATCH_SIZE]
            longest = max(map(len, group))
            ids = [[END_OF_TEXT] * (longest - len(prompt)) + prompt for prompt in group]
            seen = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in group]
            out = self.model.generate(
                torch.tensor(ids),
                attention_mask=torch.tensor(seen),
                max_new_tokens=NEW_TOKENS,
                min_new_tokens=NEW_TOKENS,
                do_sample=False,
                pad_token_id=END_OF_TEXT,
            )
            answers += out[:, longest:].tolist()
        self.model.train()
        return answers

    def num_prompts(self) -> int:
        return len(self.job.prompts) if os.environ.get("BENCH_FULL") else 3 * BATCH_SIZE

    def _loss(self, rows: Sequence[Row]) -> torch.Tensor:
        inputs, targets = plain.pad([list(row.token_ids) for row in rows])
        logits = self.model(inputs, attention_mask=(targets != plain.IGNORE_INDEX).long()).logits
        return nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), ignore_index=plain.IGNORE_INDEX
        )


class Ours(Contestant):
    """The core, called as its trainer and its generation call it."""

    def __init__(
        self,
        job: Job,
        weights: Path,
        rate: float,
        precision: str,
        *,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__(job, rate)
        self.device = find_device("cpu")
        self.precision = find_precision(precision, self.device)
        self.model = load_model(weights, gradient_checkpointing=gradient_checkpointing).train()
        self.optimizer = make_optimizer(self.model, TrainingOptions(learning_rate=rate))
        self.scaler = gradient_scaler(self.device, self.precision)

    def step(self, rows: Sequence[Row]) -> float:
        return optimizer_step(
            self.model,
            self.optimizer,
            self.scaler,
            [collate(rows, share_prefix=True)],
            learning_rate=self.learning_rate,
            gradient_clip=None,
            device=self.device,
            precision=self.precision,
        ).loss

    def validate(self) -> float:
        with autocast(self.device, self.precision):
            return mean_loss(self.model, joined_batches(self.job.val, range(len(self.job.val))))

    def generate(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        options = GenerationOptions(max_new_tokens=NEW_TOKENS)
        with autocast(self.device, self.precision):
            done = complete(self.model, prompts, options, stop_id=None)
        return [completion.token_ids for completion in done]


def plain_model(weights: Path, *, tied: bool = False) -> plain.PlainGPT2:
    """The plain model with the weights of a published folder."""
    from safetensors.torch import load_file

    config = read_config(weights)
    tensors = {
        name.removeprefix("transformer."): tensor.float()
        for name, tensor in load_file(weights / "model.safetensors").items()
    }
    model = plain.PlainGPT2(
        config.emb_dim,
        config.num_layers,
        config.num_heads,
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        tied=tied,
    )
    return model.load_published(tensors)


CONTESTANTS: dict[str, Callable[[Job, Path, float], Contestant]] = {
    "plain": Plain,
    "plain-tied": lambda *given: Plain(*given, tied=True),
    "hugging-face-float32": lambda *given: HuggingFace(*given, torch.float32),
    "hugging-face-bfloat16": lambda *given: HuggingFace(*given, torch.bfloat16),
    "ours-auto": lambda *given: Ours(*given, "auto"),
    "ours-checkpointing": lambda *given: Ours(*given, "auto", gradient_checkpointing=True),
    "ours-float32": lambda *given: Ours(*given, "float32"),
    "ours-bfloat16": lambda *given: Ours(*given, "bfloat16"),
}


class Tasks:
    """What a contestant can be asked for. Times are in seconds."""

    def __init__(self, contestant: Contestant, job: Job, memory: PeakMemory) -> None:
        self.contestant, self.job, self.memory = contestant, job, memory

    def steps(self, count: int = STEPS_A_READING) -> dict[str, Any]:
        """Seconds a step, over the first batches of the order."""
        batches = self.job.batches()[:count]
        began = time.perf_counter()
        losses = [self.contestant.step(rows) for rows in batches]
        return {"seconds": (time.perf_counter() - began) / count, "losses": losses}

    def validate(self) -> dict[str, Any]:
        began = time.perf_counter()
        loss = self.contestant.validate()
        return {"seconds": time.perf_counter() - began, "loss": loss}

    def generate(self) -> dict[str, Any]:
        prompts = self.job.prompts[: self.contestant.num_prompts()]
        began = time.perf_counter()
        answers = self.contestant.generate(prompts)
        seconds = time.perf_counter() - began
        assert all(len(answer) == NEW_TOKENS for answer in answers)
        return {"rate": len(prompts) * NEW_TOKENS / seconds, "prompts": len(prompts)}

    def singly(self, count: int) -> dict[str, Any]:
        """So many prompts, one after the other."""
        began = time.perf_counter()
        answers = [self.contestant.generate([prompt])[0] for prompt in self.job.prompts[:count]]
        seconds = time.perf_counter() - began
        return {"rate": sum(map(len, answers)) / seconds}

    def warm(self) -> dict[str, Any]:
        """What a first step and a first token cost once."""
        self.contestant.step(self.job.batches()[0])
        return {}

    def losses(self, count: int) -> dict[str, Any]:
        """Trains `count` steps in the order of the epochs; the validation loss afterwards."""
        for rows in _endless(self.job, count):
            self.contestant.step(rows)
        return self.validate()

    def precision(self) -> dict[str, Any]:
        return {"precision": getattr(self.contestant, "precision", "")}

    def peak(self) -> dict[str, Any]:
        return {"bytes": self.memory.read()}


def _endless(job: Job, count: int) -> Iterator[list[Row]]:
    epoch = 0
    while count > 0:
        batches = job.batches(epoch)[:count]
        yield from batches
        count, epoch = count - len(batches), epoch + 1


def serve(name: str, data: Path, weights: Path, rate: float, lines: Iterable[str]) -> None:
    memory = PeakMemory(find_device("cpu"))
    job = Job.read(data)
    tasks = Tasks(CONTESTANTS[name](job, weights, rate), job, memory)
    print(json.dumps({"ready": True}), flush=True)
    for line in lines:
        task, *arguments = line.split()
        print(json.dumps(getattr(tasks, task)(*map(int, arguments))), flush=True)


if __name__ == "__main__":
    name, data, weights, rate = sys.argv[1:]
    # The program keeps its memory itself, for itself; the others run as their users run them.
    with computing() if name.startswith("ours") else nullcontext():
        serve(name, Path(data), Path(weights), float(rate), sys.stdin)
