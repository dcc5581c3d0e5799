"""How gpt2-nano is made: the corpus, its tokens, and the one call that pretrains on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.embedded.corpus import documents
from twolevers.models.catalog import GPT2Config, find_model
from twolevers.training.pretrain import (
    OnStep,
    PretrainedModel,
    PretrainOptions,
    pretrain,
    write_pretrained,
)

CORPUS_SEED = 2025
SURVEY_SEED = 1
SURVEY_DOCUMENTS = 40_000
"""Documents read beforehand to find the tokens in use; a token they lack is read as unknown."""


def token_ids(seed: int) -> Iterator[list[int]]:
    """The corpus as tokens, each document with its end of text."""
    tokenizer = get_tokenizer()
    for text in documents(seed):
        yield [*tokenizer.encode(text), END_OF_TEXT]


def used_token_ids(num_documents: int = SURVEY_DOCUMENTS) -> list[int]:
    """The tokens that occur in the corpus."""
    used = {END_OF_TEXT}
    for ids in islice(token_ids(SURVEY_SEED), num_documents):
        used.update(ids)
    return sorted(used)


def pretrain_nano(
    folder: Path,
    *,
    options: PretrainOptions = PretrainOptions(),  # noqa: B008 - frozen
    config: GPT2Config | None = None,
    survey_documents: int = SURVEY_DOCUMENTS,
    checkpoint_steps: int = 0,
    on_step: OnStep | None = None,
) -> PretrainedModel:
    """Pretrain gpt2-nano and write it to `folder` in the Hugging Face layout.

    Args:
        folder: taken whole: what stands there is replaced at the end.
        options: how to pretrain; the defaults made the weights that ship.
        config: sizes of the model; nano's own unless told otherwise.
        survey_documents: how many documents are read to find the tokens in use.
        checkpoint_steps: write the model as it stands to `folder` every so many steps (0: never).
        on_step: called after each step.
    """
    began = time.perf_counter()
    command = f"python -m flows.pretrain_nano --output {folder.name} --steps {options.steps}"

    def write(steps: int, model: PretrainedModel) -> None:
        seconds = time.perf_counter() - began
        write_pretrained(model, folder, options, steps=steps, seconds=seconds, command=command)

    model = pretrain(
        token_ids(CORPUS_SEED),
        used_token_ids(survey_documents),
        config or find_model("gpt2-nano").config,
        options,
        on_step=on_step,
        on_checkpoint=write if checkpoint_steps else None,
        checkpoint_steps=checkpoint_steps,
    )
    write(options.steps, model)
    return model
