"""A trained classifier, as it was saved, on all of the three splits."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional as F

from twolevers.classification.data import SPLITS, load_texts
from twolevers.classification.metrics import class_scores
from twolevers.classification.model import load_classifier
from twolevers.classification.predict import log_probabilities
from twolevers.classification.records import ClassifierScores, LabelledData, SplitScores
from twolevers.computing import computing
from twolevers.device import Device
from twolevers.files import write_json
from twolevers.progress import Progress


def evaluate_classifier(
    checkpoint: Path,
    data: LabelledData,
    *,
    device: Device,
    precision: str,
    output: Path,
    progress: Progress,
) -> ClassifierScores:
    """Scores by split; the tables go to `output`.

    Raises:
        InputError: the checkpoint holds no whole classifier.
    """
    classifier, about = load_classifier(checkpoint, device.name)
    majority = data.labels.index(data.majority)
    scores, tables = [], {}
    progress.start("evaluate", data.num_train + data.num_val + data.num_test, "texts")
    done = 0
    for split in SPLITS:
        texts = load_texts(data, split)
        with computing():
            logs = log_probabilities(classifier, texts, device, precision)
        labels = torch.tensor([text.label for text in texts])
        found = class_scores(labels.numpy(), logs.double().exp().numpy())
        tables[split] = found.tables()
        scores.append(
            SplitScores(
                split=split,
                num=len(texts),
                loss=F.nll_loss(logs, labels).item(),
                accuracy=found.accuracy,
                balanced_accuracy=found.balanced_accuracy,
                macro_f1=found.macro_f1,
                calibration_error=found.calibration_error,
                majority_accuracy=(labels == majority).float().mean().item(),
            )
        )
        done += len(texts)
        progress.advance(done)
    progress.finish()
    write_json(output, {"labels": about.labels, "splits": tables})
    return ClassifierScores(path=output, splits=tuple(scores))
