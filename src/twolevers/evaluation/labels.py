"""Classification as an instruction: kinds of task whose answers are few and always the same.

The label is chosen in three ways: by the likelihood of each label as the answer, summed over its
tokens; by the same divided by their number, which does not favour short labels; and by what the
model wrote when it was free to write anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from twolevers.classification.metrics import AnswerScores, answer_scores, class_scores
from twolevers.classification.read import sorted_labels
from twolevers.computing import computing
from twolevers.data.batch import IGNORE_INDEX, Row, collate
from twolevers.data.prompt import Entry
from twolevers.data.split import SPLITS, TokenisedSplit, load_split
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.device import Device
from twolevers.errors import InputError, Problem
from twolevers.evaluation.likelihood import of_targets
from twolevers.evaluation.text import squad_words
from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.progress import Progress
from twolevers.records import TokenisedData
from twolevers.training.precision import autocast

MOST_LABELS, LEAST_ENTRIES = 10, 3
"""A closed set has so many labels at most, and so many entries a label at least, on average."""
METHODS = ("likelihood", "likelihood a token", "free generation")


@dataclass(frozen=True)
class LabelScores:
    """One kind of task, one model: scores by the way in which the label was chosen."""

    kind: str
    """Empty where the data names no kinds."""
    labels: tuple[str, ...]
    num: int
    """Test entries."""
    majority_accuracy: float
    """Accuracy of always answering the training split's most frequent label."""
    by_method: dict[str, AnswerScores]
    """By the names in `METHODS`; the last only where answers are given."""
    num_no_label: int
    """Free answers that are none of the labels; they count as wrong."""


def closed_sets(entries: Sequence[Entry]) -> dict[str, tuple[str, ...]]:
    """The labels of each kind of task whose outputs are a short closed set: 2 to 10 different ones,
    at least 3 entries for each on average. Where every entry of a kind names its options, these
    are its labels, however few its entries are."""
    outputs: dict[str, list[str]] = defaultdict(list)
    options: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for entry in entries:
        outputs[entry.kind].append(entry.output.strip())
        options[entry.kind].append(entry.options)
    sets = {}
    for kind, found in outputs.items():
        named = all(options[kind])
        labels = {*found, *(one.strip() for listed in options[kind] for one in listed if named)}
        enough = named or len(found) >= LEAST_ENTRIES * len(labels)
        if 2 <= len(labels) <= MOST_LABELS and enough:
            sets[kind] = sorted_labels(labels)
    return sets


@torch.no_grad()
def label_likelihoods(
    model: GPT2, prompt: Sequence[int], labels: Sequence[Sequence[int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """How likely each label is as the whole answer to a prompt: nats, both (K,) float64.

    The prompt, and what labels begin with in common, is computed once. The end of text is a token
    of the answer: without it a label that begins another would win over it.

    Returns:
        The sum over a label's tokens, and the same divided by their number.
    """
    rows = [Row([*prompt, *label, END_OF_TEXT], len(prompt)) for label in labels]
    batch = collate(rows, share_prefix=True).to(model.wte.weight.device)
    answer = (batch.target_ids != IGNORE_INDEX).cpu()
    likelihoods = torch.zeros(len(answer), dtype=torch.float64)
    likelihoods[answer], _ = of_targets(model, batch)
    shared, own = likelihoods[: batch.prefix].sum(), likelihoods[batch.prefix :]
    sums = torch.stack([part.sum() + shared for part in own.split(list(batch.lengths))])
    return sums, sums / torch.tensor([len(label) + 1 for label in labels])


def label_scores(
    model_path: Path,
    data: TokenisedData,
    *,
    config: GPT2Config | None,
    device: Device,
    precision: str,
    answers: dict[int, str] | None,
    progress: Progress,
) -> list[LabelScores]:
    """Scores of one model on every kind of task of the test split that has a closed set.

    Args:
        answers: what the model wrote, by the entry's number in the data file; None where it was
            not asked.

    Raises:
        InputError: no kind of task has a closed set.
    """
    splits = {split: load_split(data, split) for split in SPLITS}
    entries = {name: [rows.entry(i) for i in range(len(rows))] for name, rows in splits.items()}
    sets = closed_sets([entry for found in entries.values() for entry in found])
    asked = {kind: _of_kind(entries["test"], kind) for kind in sets}
    asked = {kind: places for kind, places in asked.items() if places}
    if not asked:
        what = (
            f"no kind of task has a closed set of outputs (2 to {MOST_LABELS} different ones, "
            f"{LEAST_ENTRIES} entries for each)"
        )
        raise InputError(Problem("dataset", data.dataset, what, "name a run of other data"))
    model = load_model(model_path, config, device=device.name).eval()
    progress.start("classify", sum(map(len, asked.values())), "texts")
    scores, done = [], 0
    for kind, places in asked.items():
        with computing(), autocast(device, precision):
            sums, means = _likelihoods(model, splits["test"], places, sets[kind])
        right = np.array([sets[kind].index(entries["test"][i].output.strip()) for i in places])
        trained = Counter(e.output.strip() for e in entries["train"] if e.kind == kind)
        majority = max(sets[kind], key=lambda label: trained[label])
        by_method: dict[str, AnswerScores] = {
            METHODS[0]: class_scores(right, sums.softmax(-1).numpy()),
            METHODS[1]: class_scores(right, means.softmax(-1).numpy()),
        }
        answered = _answered(splits["test"], places, sets[kind], answers)
        if answered is not None:
            by_method[METHODS[2]] = answer_scores(right, answered, len(sets[kind]))
        no_label = 0 if answered is None else int((answered == len(sets[kind])).sum())
        majority_accuracy = float((right == sets[kind].index(majority)).mean())
        scores.append(
            LabelScores(kind, sets[kind], len(places), majority_accuracy, by_method, no_label)
        )
        done += len(places)
        progress.advance(done)
    progress.finish()
    return scores


def _of_kind(entries: Sequence[Entry], kind: str) -> list[int]:
    return [i for i, entry in enumerate(entries) if entry.kind == kind]


def _likelihoods(
    model: GPT2, test: TokenisedSplit, places: Sequence[int], labels: Sequence[str]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(n, K) sums and means."""
    tokens = get_tokenizer().encode_batch(labels)
    room = model.config.context_length - max(map(len, tokens))
    found = [label_likelihoods(model, test.prompt_ids(i)[-room:], tokens) for i in places]
    return torch.stack([sums for sums, _ in found]), torch.stack([means for _, means in found])


def _answered(
    test: TokenisedSplit,
    places: Sequence[int],
    labels: Sequence[str],
    answers: dict[int, str] | None,
) -> np.ndarray | None:
    """The label that each free answer is, case, punctuation and articles aside; K for none."""
    if answers is None:
        return None
    known = {tuple(squad_words(label)): place for place, label in enumerate(labels)}
    written = [tuple(squad_words(answers.get(test.row_number(i), ""))) for i in places]
    return np.array([known.get(words, len(labels)) for words in written])
