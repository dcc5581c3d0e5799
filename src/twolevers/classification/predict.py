"""What a classifier says of texts, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from twolevers.classification.data import LabelledText, cut
from twolevers.classification.model import Classifier, batch_of, load_classifier
from twolevers.computing import computing
from twolevers.data.tokenizer import get_tokenizer
from twolevers.device import Device
from twolevers.errors import InputError, Problem
from twolevers.training.evaluate import JOINED_TOKENS
from twolevers.training.precision import autocast


@dataclass(frozen=True)
class Prediction:
    """The likeliest label of a text, and how likely every label is (in the labels' order)."""

    label: str
    probability: float
    probabilities: dict[str, float]
    was_cut: bool


@torch.no_grad()
def log_probabilities(
    classifier: Classifier, texts: Sequence[LabelledText], device: Device, precision: str
) -> Tensor:
    """(n, K) float32 on the CPU, dropout off; a text's row does not depend on its neighbours but
    for rounding."""
    training = classifier.training
    classifier.eval()
    parts = []
    try:
        with autocast(device, precision):
            for group in _groups(texts):
                logits = classifier(batch_of(group)[0].to(device.name))
                parts.append(logits.float().log_softmax(-1).cpu())
    finally:
        classifier.train(training)
    return torch.cat(parts)


def _groups(texts: Sequence[LabelledText]) -> Iterator[list[LabelledText]]:
    """Neighbours of about `JOINED_TOKENS` tokens: few large batches are faster than many small."""
    group: list[LabelledText] = []
    tokens = 0
    for text in texts:
        group.append(text)
        tokens += len(text.token_ids)
        if tokens >= JOINED_TOKENS:
            yield group
            group, tokens = [], 0
    if group:
        yield group


class TextClassifier:
    """A trained classifier on its device: texts in, labels out.

    Args:
        folder: a checkpoint of `twolevers classify`.
        precision: of matrix products, explicit.

    Raises:
        InputError: the folder holds no whole classifier.
    """

    def __init__(self, folder: Path, *, device: Device, precision: str = "float32") -> None:
        self._device, self._precision = device, precision
        self._classifier, self.about = load_classifier(folder, device.name)

    @property
    def labels(self) -> tuple[str, ...]:
        """In the order of the head's columns."""
        return self.about.labels

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """One prediction a text; longer ones are cut by the rule of training.

        Raises:
            InputError: an empty text, all of them with their numbers.
        """
        if empty := [n for n, text in enumerate(texts, start=1) if not text.strip()]:
            raise InputError(
                [Problem(f"text {number}", None, "is empty", "give its words") for number in empty]
            )
        if not texts:
            return []
        whole = get_tokenizer().encode_batch(texts)
        limit, rule = self.about.max_length, self.about.cut
        rows = [LabelledText(cut(ids, limit, rule), 0) for ids in whole]
        with computing():
            logs = log_probabilities(self._classifier, rows, self._device, self._precision)
        return [
            self._prediction(probabilities, len(ids) > limit)
            for probabilities, ids in zip(logs.exp().tolist(), whole, strict=True)
        ]

    def _prediction(self, probabilities: list[float], was_cut: bool) -> Prediction:
        by_label = dict(zip(self.labels, probabilities, strict=True))
        label = max(by_label, key=lambda one: by_label[one])
        return Prediction(label, by_label[label], by_label, was_cut)
