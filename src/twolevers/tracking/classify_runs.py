"""One classification as a tracked run: opened before the first stage, closed whatever happens."""

from __future__ import annotations

import json
from pathlib import Path

from twolevers.classification.data import load_texts
from twolevers.classification.options import ClassifyOptions
from twolevers.classification.plan import (
    classify_fingerprint,
    make_classify_plan,
    workload_parts,
)
from twolevers.classification.records import ClassificationRun, LabelledData
from twolevers.records import DatasetFile, WeightsFolder
from twolevers.tracking import names
from twolevers.tracking.inputs import Inputs, read_inputs, write_inputs
from twolevers.tracking.run_tracker import MlflowTracker
from twolevers.tracking.training_runs import TrainingRuns

CLASSIFICATIONS = TrainingRuns(
    names.CLASSIFY,
    ClassificationRun,
    ClassifyOptions,
    names.CLASSIFY_OPTIONS_FILE,
    make_classify_plan,
)


def note_classify_inputs(
    tracker: MlflowTracker,
    run: ClassificationRun,
    dataset: DatasetFile,
    weights: WeightsFolder,
    data: LabelledData,
) -> None:
    """Keep with the run what it works on: records of its inputs, counts, hashes, fingerprint."""
    tracker.log_file(write_inputs(run.folder, dataset, weights, data))
    tracker.log_dataset_input(dataset, data)
    counts = ("num_rows", "num_dropped", "num_cut", "num_repeated", "longest")
    tracker.log_params({f"data_{name}": getattr(data, name) for name in counts})
    tracker.set_tags(
        {
            names.FINGERPRINT: classify_fingerprint(run.options, data),
            names.WORKLOAD: json.dumps(workload_parts(run.options, data)),
            "twolevers.labels": ", ".join(data.labels),
            "twolevers.weights_sha256": weights.sha256,
            "twolevers.weights_source": weights.source,
        }
    )


def kept_texts(folder: Path) -> Inputs[LabelledData] | None:
    """What `note_classify_inputs` kept in a run's folder; None where it kept nothing yet.

    Raises:
        InputError: it is no longer whole.
    """
    return read_inputs(folder, LabelledData, load_texts)
