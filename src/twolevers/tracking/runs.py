"""One fine-tuning as a tracked run: opened before the first stage, closed whatever happens."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from twolevers.data.split import load_split
from twolevers.errors import InputError, Problem
from twolevers.files import atomic_folder
from twolevers.fingerprint import fingerprint_parts, workload_fingerprint
from twolevers.options import FineTuneOptions
from twolevers.plan import make_plan
from twolevers.records import DatasetFile, FineTuneRun, OpenRun, TokenisedData, WeightsFolder
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.inputs import DATA_FOLDER, Inputs, read_inputs, write_inputs
from twolevers.tracking.mlflow_tracker import attach_run
from twolevers.tracking.run_tracker import MlflowTracker, Warn
from twolevers.tracking.training_runs import TrainingRuns

FINE_TUNINGS = TrainingRuns(
    names.FINE_TUNE, FineTuneRun, FineTuneOptions, names.OPTIONS_FILE, make_plan
)


def fine_tune_run(
    asked: FineTuneOptions,
    *,
    flow_run_id: str | None,
    resume_from: str | None = None,
    rerun_of: str | None = None,
    warn: Warn | None = None,
) -> AbstractContextManager[FineTuneRun]:
    """Open a fine-tuning, or reopen one: see `TrainingRuns.opened`.

    Args:
        rerun_of: the run that this one repeats, noted with it.
    """
    return FINE_TUNINGS.opened(
        asked,
        flow_run_id=flow_run_id,
        resume_from=resume_from,
        tags={names.RERUN_OF: rerun_of} if rerun_of else None,
        data_is_kept=rerun_of is not None,
        warn=warn,
    )


@contextmanager
def track(run: OpenRun) -> Iterator[MlflowTracker]:
    """A tracker for one stage of an open run."""
    with attach_run(home=Home(), settings=load_settings(), run_id=run.run_id) as tracker:
        yield tracker


def note_inputs(
    tracker: MlflowTracker,
    run: FineTuneRun,
    dataset: DatasetFile,
    weights: WeightsFolder,
    data: TokenisedData,
) -> None:
    """Keep with the run what it works on: the data as read and its ledger, hashes, fingerprint.

    The data is linked, not copied, where the file system can: a rerun then needs the run and
    nothing else, even when the cache was emptied.
    """
    _link_folder(data.path, run.folder / DATA_FOLDER)
    kept = write_inputs(run.folder, dataset, weights, data)
    tracker.log_dataset_input(dataset, data)
    tracker.set_tags(
        {
            names.FINGERPRINT: workload_fingerprint(run.options, data.data_sha256),
            names.WORKLOAD: json.dumps(fingerprint_parts(run.options, data.data_sha256)),
            "twolevers.weights_sha256": weights.sha256,
            "twolevers.weights_source": weights.source,
        }
    )
    for file in (kept, run.folder / DATA_FOLDER / "ledger.json"):
        tracker.log_file(file)


def kept_inputs(folder: Path) -> Inputs[TokenisedData] | None:
    """What `note_inputs` kept in a run's folder; None where it kept nothing yet.

    Raises:
        InputError: it is no longer whole.
    """
    return read_inputs(folder, TokenisedData, load_split)


def read_run_options(folder: Path) -> FineTuneOptions:
    """The resolved options stored in a run's folder.

    Raises:
        InputError: the folder is not on this machine.
    """
    if (folder / names.CLASSIFY_OPTIONS_FILE).is_file():
        what = "classifies texts, it answers no instructions"
        way_out = f"ask it: twolevers classify --run {folder.name[:8]} TEXT"
        raise InputError(Problem("run", folder.name, what, way_out))
    return FINE_TUNINGS.read_options(folder)


def _link_folder(source: Path, target: Path) -> None:
    def link(file: str, to: str) -> None:
        try:
            os.link(file, to)
        except OSError:
            shutil.copy2(file, to)

    with atomic_folder(target) as temporary:
        shutil.copytree(source, temporary, copy_function=link, dirs_exist_ok=True)
