"""The stage `generate`: a model's answers to a split, written to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from twolevers.computing import computing
from twolevers.data.split import TokenisedSplit, load_split
from twolevers.data.tokenizer import get_tokenizer
from twolevers.device import Device
from twolevers.files import sha256_of
from twolevers.generation.answers import Answer, write_answers
from twolevers.generation.generate import Completion, complete
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions
from twolevers.progress import Progress
from twolevers.records import Responses, Role, ScoredSplit, TokenisedData
from twolevers.training.precision import autocast


def respond(
    role: Role,
    path: Path,
    data: TokenisedData,
    options: GenerationOptions,
    *,
    config: GPT2Config | None,
    device: Device,
    precision: str,
    seed: int,
    output: Path,
    progress: Progress,
    asked: ScoredSplit = "test",
) -> Responses:
    """Lets the model in `path` answer every entry of the split `asked`; writes `output`.

    A prompt that fills the model's context leaves no room for an answer. Such an entry is not
    left out, which would make its score look better: it has an empty answer that did not end,
    and a note says so. The time is that of generation alone, loading not counted.

    Raises:
        TwoleversError: generation failed. Nothing is written then: a failure is no answer.
    """
    model = load_model(path, config, device=device.name)
    split = load_split(data, asked)
    progress.start("generate", len(split), "answers")
    began = time.perf_counter()
    with computing(), autocast(device, precision):
        completions = _complete(model, split, options, seed, progress)
    seconds = time.perf_counter() - began
    progress.finish()
    write_answers(output, _answers(split, completions))
    return Responses(
        role=role,
        path=output.absolute(),
        sha256=sha256_of(output),
        num_responses=len(split),
        new_tokens=sum(len(completion.token_ids) for completion in completions),
        seconds=seconds,
    )


def _complete(
    model: GPT2,
    split: TokenisedSplit,
    options: GenerationOptions,
    seed: int,
    progress: Progress,
) -> list[Completion]:
    """A completion for every row, an empty one where the prompt leaves no room."""
    prompts = [split.prompt_ids(i) for i in range(len(split))]
    answerable = [
        i for i, prompt in enumerate(prompts) if len(prompt) < model.config.context_length
    ]
    for i in sorted(set(range(len(split))) - set(answerable)):
        progress.note(
            f"row {split.row_number(i)}: its prompt of {len(prompts[i]):,} tokens fills the "
            f"model's context of {model.config.context_length:,}; it is counted as not answered"
        )
    on_token, on_end = _figures(progress, len(split) - len(answerable))
    completions = [Completion() for _ in prompts]
    answers = complete(
        model,
        [prompts[i] for i in answerable],
        options,
        seed=seed,
        on_token=on_token,
        on_end=on_end,
    )
    for i, answer in zip(answerable, answers, strict=True):
        completions[i] = answer
    return completions


def _figures(
    progress: Progress, done: int
) -> tuple[Callable[[int, int], None], Callable[[int], None]]:
    """Counts tokens and answers, and tells `progress` at each answer."""
    began, tokens = time.perf_counter(), 0

    def on_token(_index: int, _token_id: int) -> None:
        nonlocal tokens
        tokens += 1

    def on_end(_index: int) -> None:
        nonlocal done
        done += 1
        elapsed = max(time.perf_counter() - began, 1e-9)
        progress.advance(done, tokens_per_second=tokens / elapsed)

    return on_token, on_end


def _answers(split: TokenisedSplit, completions: list[Completion]) -> Iterator[Answer]:
    tokenizer = get_tokenizer()
    for i, completion in enumerate(completions):
        entry = split.entry(i)
        yield Answer(
            instruction=entry.instruction,
            input=entry.input,
            output=entry.output,
            model_response=tokenizer.decode(completion.token_ids).strip(),
            kind=entry.kind,
            ended=completion.ended,
            row=split.row_number(i),
        )
