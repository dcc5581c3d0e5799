"""GPT-2 with a linear head on each text's last token, as chapter 6 builds it.

Letters as in `models/gpt2.py`; B texts of a batch, K labels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
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

    labels: tuple[str, ...]
    max_length: int
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
        stored = json.loads(file.read_text(encoding="utf-8"))
        about = ClassifierAbout(
            tuple(stored["labels"]), stored["max_length"], stored["cut"], stored["trained"]
        )
        classifier = Classifier(load_model(folder, device=device), len(about.labels))
        classifier.head.load_state_dict(load_file(folder / HEAD_FILE, device=device))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        what = f"is not whole: {error}"
        raise InputError(Problem("checkpoint", str(folder), what, "train it again")) from error
    return classifier.eval(), about
