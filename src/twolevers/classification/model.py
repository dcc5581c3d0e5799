"""GPT-2 with a linear head on each text's last token, as chapter 6 builds it.

Letters as in `models/gpt2.py`; B texts of a batch, K labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from twolevers.classification.data import LabelledText
from twolevers.classification.lora import add_lora, merge_lora
from twolevers.classification.options import ClassifierTrainingOptions, CutRule
from twolevers.data.batch import Batch, Row, collate
from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.errors import InputError, Problem
from twolevers.files import write_json
from twolevers.models.attention import causal_within
from twolevers.models.gpt2 import GPT2
from twolevers.models.layout import WEIGHTS_FILE
from twolevers.models.weights import load_model, save_model

HEAD_FILE = "head.safetensors"
CLASSIFIER_FILE = "classifier.json"


class Classifier(nn.Module):
    """A body and a head: a batch of texts to a logit for each label."""

    def __init__(self, body: GPT2, num_labels: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(body.config.emb_dim, num_labels, device=body.wte.weight.device)

    def forward(self, batch: Batch) -> Tensor:
        """(B, K) logits. Pooled at each text's last token: it alone has seen all the others.

        Texts lie end to end without padding, so nothing can be pooled at padding.
        """
        hidden = self.body(batch.input_ids, batch.positions, causal_within(batch.lengths))
        last = torch.tensor(batch.lengths, device=hidden.device).cumsum(0) - 1  # (B,)
        logits: Tensor = self.head(hidden[last])  # (N, C) -> (B, C) -> (B, K)
        return logits

    def choose_trained(self, options: ClassifierTrainingOptions) -> None:
        """Freeze all but what `options.train` names; the head is always trained."""
        self.body.requires_grad_(options.train == "all")
        if options.train == "last_block":
            self.body.h[-1].requires_grad_(True)
            self.body.ln_f.requires_grad_(True)
        if options.train == "lora":
            add_lora(self.body, options.lora_rank, options.lora_alpha)

    def trained(self) -> list[nn.Parameter]:
        """The parameters that training changes."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]


def batch_of(texts: Sequence[LabelledText]) -> tuple[Batch, Tensor]:
    """Texts end to end, and their labels (B,). A row's last token is a target only, and here there
    are none: an end of text stands in for it."""
    batch = collate([Row([*text.token_ids, END_OF_TEXT]) for text in texts])
    return batch, torch.tensor([text.label for text in texts])


@dataclass(frozen=True)
class ClassifierAbout:
    """What a classifier's folder says besides its weights: enough to use it."""

    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    max_length: Annotated[int, Field(ge=2)]
    cut: CutRule
    trained: str


def save_classifier(classifier: Classifier, about: ClassifierAbout, folder: Path) -> str:
    """Writes body (in the Hugging Face layout), head and labels; updates of lora are merged.

    The caller makes the folder whole or nothing (`atomic_folder`).

    Returns:
        SHA-256 of the body's weights.
    """
    merge_lora(classifier.body)
    head = {
        name: tensor.cpu().contiguous() for name, tensor in classifier.head.state_dict().items()
    }
    save_file(head, folder / HEAD_FILE)
    write_json(
        folder / CLASSIFIER_FILE,
        {
            "labels": about.labels,
            "max_length": about.max_length,
            "cut": about.cut,
            "pooling": "last token",
            "trained": about.trained,
        },
    )
    return save_model(classifier.body, folder)


def load_classifier(folder: Path, device: str = "cpu") -> tuple[Classifier, ClassifierAbout]:
    """What `save_classifier` wrote.

    Raises:
        InputError: the folder holds no classifier, or one that is not whole.
    """
    file = folder / CLASSIFIER_FILE
    if not file.is_file():
        what = f"holds no classifier ({CLASSIFIER_FILE} is not there)"
        way_out = "name a run of `twolevers classify`"
        raise InputError(Problem("checkpoint", str(folder), what, way_out))
    try:
        for name in (HEAD_FILE, WEIGHTS_FILE):
            if not (folder / name).is_file():
                raise ValueError(f"{name} is not there")
        about = _read_about(file)
        body = load_model(folder, device=device)
        # Of short texts nothing was cut, however much less than `max_length` the model takes.
        max_length = min(about.max_length, body.config.context_length)
        classifier = Classifier(body, len(about.labels))
        classifier.head.load_state_dict(load_file(folder / HEAD_FILE, device=device))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        what = f"is not whole: {' '.join(str(error).split())}"
        way_out = "copy it again, or train it again"
        raise InputError(Problem("checkpoint", str(folder), what, way_out)) from error
    return classifier.eval(), replace(about, max_length=max_length)


def _read_about(file: Path) -> ClassifierAbout:
    """Raises ValueError: in one line, what is not as `save_classifier` wrote it."""
    try:
        about = TypeAdapter(ClassifierAbout).validate_json(file.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{file.name}{place and f', {place}'}: {first['msg']}") from None
    if len({*about.labels}) < len(about.labels):
        raise ValueError(f"{file.name}, labels: one stands twice")
    return about
