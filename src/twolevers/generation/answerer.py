"""A fine-tuned model as whoever asks it sees it: entries in, answers out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twolevers.data.prompt import Entry, find_style
from twolevers.data.tokenizer import get_tokenizer
from twolevers.device import Device
from twolevers.errors import InputError, Problem
from twolevers.generation.generate import generate
from twolevers.models.catalog import GPT2Config
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions
from twolevers.training.precision import autocast


class Answerer:
    """A model on its device, with the prompt style that it was trained with.

    Args:
        path: folder in the Hugging Face layout.
        config: sizes; from the folder's `config.json` where None.
        precision: of matrix products, explicit.

    Raises:
        InputError: the weights cannot be read, or no such prompt style.
    """

    def __init__(
        self,
        path: Path,
        config: GPT2Config | None = None,
        *,
        prompt_style: str,
        device: Device,
        precision: str = "float32",
    ) -> None:
        self._style = find_style(prompt_style)
        self._device, self._precision = device, precision
        self._model = load_model(path, config, device=device.name).eval()

    def answer(
        self, entries: Sequence[Entry], options: GenerationOptions, *, seed: int
    ) -> list[str]:
        """One answer an entry, white space at both ends removed as the chapter does.

        Raises:
            InputError: an empty instruction, or a prompt that leaves no room for an answer.
        """
        if empty := [entry for entry in entries if not entry.instruction.strip()]:
            raise InputError(
                Problem("instruction", empty[0].instruction, "is empty", "say what to do")
            )
        tokenizer = get_tokenizer()
        prompts = [tokenizer.encode(self._style.render(entry)[0]) for entry in entries]
        with autocast(self._device, self._precision):
            answers = generate(self._model, prompts, options, seed=seed)
        return [tokenizer.decode(answer).strip() for answer in answers]
