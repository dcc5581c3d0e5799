"""One classification as a tracked run: opened before the first stage, closed whatever happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twolevers.classification.options import ClassifyOptions
from twolevers.classification.plan import (
    classify_fingerprint,
    make_classify_plan,
    workload_parts,
)
from twolevers.classification.records import ClassificationRun, LabelledData
from twolevers.files import read_json
from twolevers.plan import flat_options
from twolevers.records import DatasetFile, WeightsFolder
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.queries import find_flow_run
from twolevers.tracking.run_tracker import MlflowTracker, Warn
from twolevers.tracking.tracked_run import device_tags, tracked_run


@contextmanager
def classification_run(
    asked: ClassifyOptions, *, flow_run_id: str | None, warn: Warn | None = None
) -> Iterator[ClassificationRun]:
    """Open a classification, or reopen the one that an earlier attempt of the same flow run began.

    Nothing is opened before every option has been checked. Ctrl-C or SIGTERM anywhere in the
    block becomes RunStopped.

    Args:
        warn: told in one line what MLflow did not take, from any thread.

    Raises:
        InputError: options that cannot be used.
    """
    home, settings = Home(), load_settings()
    run_id = find_flow_run(flow_run_id, home, settings) if flow_run_id else None
    if run_id:
        asked = read_classify_options(home.run_folder(run_id))
    plan = make_classify_plan(asked, settings)
    with tracked_run(
        names.CLASSIFY,
        plan.run_name,
        asked=plan.options,
        file_name=names.CLASSIFY_OPTIONS_FILE,
        params=flat_options(plan.options),
        tags=device_tags(plan.device),
        flow_run_id=flow_run_id,
        reopen=run_id,
        warn=warn,
        stopped="Stopped. Start it again: nothing of it can be continued.",
    ) as (opened_id, folder):
        yield ClassificationRun(
            run_id=opened_id,
            flow_run_id=flow_run_id,
            resumed=False,
            folder=folder,
            options=plan.options,
            hardware=plan.device.hardware,
            threads=plan.device.threads,
        )


def read_classify_options(folder: Path) -> ClassifyOptions:
    """The resolved options stored in a run's folder."""
    return ClassifyOptions.model_validate(read_json(folder / names.CLASSIFY_OPTIONS_FILE))


def note_classify_inputs(
    tracker: MlflowTracker,
    run: ClassificationRun,
    dataset: DatasetFile,
    weights: WeightsFolder,
    data: LabelledData,
) -> None:
    """Keep with the run what it works on: data set, counts, hashes, fingerprint."""
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
