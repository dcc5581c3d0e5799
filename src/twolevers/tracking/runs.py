"""One fine-tuning as a tracked run: opened before the first stage, closed whatever happens."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from twolevers.data.split import SPLITS, load_split
from twolevers.errors import InputError, Problem
from twolevers.files import atomic_folder, read_json, write_json
from twolevers.fingerprint import fingerprint_parts, workload_fingerprint
from twolevers.options import FineTuneOptions
from twolevers.plan import Plan, changed_options, flat_options, make_plan, resume_options
from twolevers.records import DatasetFile, FineTuneRun, OpenRun, TokenisedData, WeightsFolder
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.kinds import check_kind
from twolevers.tracking.mlflow_tracker import attach_run
from twolevers.tracking.queries import find_flow_run, find_run
from twolevers.tracking.run_tracker import MlflowTracker, Warn
from twolevers.tracking.tracked_run import device_tags, tracked_run

OPTIONS_FILE = names.OPTIONS_FILE
INPUTS_FILE = "inputs.json"
DATA_FOLDER = "data"


@contextmanager
def fine_tune_run(
    asked: FineTuneOptions,
    *,
    flow_run_id: str | None,
    resume_from: str | None = None,
    rerun_of: str | None = None,
    warn: Warn | None = None,
) -> Iterator[FineTuneRun]:
    """Open a fine-tuning, or reopen one: that named by `resume_from`, or the one that an earlier
    attempt of the same flow run began.

    Args:
        rerun_of: the run that this one repeats, noted with it.
        warn: told in one line what MLflow did not take, from any thread.

    Nothing is opened before every option has been checked. Ctrl-C or SIGTERM anywhere in the
    block becomes RunStopped with the command that continues the run.

    Raises:
        InputError: options that cannot be used; a run to resume that is unknown or finished.
    """
    home, settings = Home(), load_settings()
    # A retry of the same flow run reopens the run that its first attempt worked on, as it is.
    run_id = find_flow_run(flow_run_id, home, settings) if flow_run_id else None
    if run_id:
        asked = FineTuneOptions()
    elif resume_from:
        run_id = run_to_continue(resume_from)
    plan = plan_run(asked, run_id, data_is_kept=rerun_of is not None)
    with tracked_run(
        names.FINE_TUNE,
        plan.run_name,
        asked=plan.options,
        file_name=OPTIONS_FILE,
        params=flat_options(plan.options),
        tags=device_tags(plan.device) | ({names.RERUN_OF: rerun_of} if rerun_of else {}),
        flow_run_id=flow_run_id,
        reopen=run_id,
        warn=warn,
        resumable=True,
    ) as (opened_id, folder):
        yield FineTuneRun(
            run_id=opened_id,
            flow_run_id=flow_run_id,
            resumed=resume_from is not None,
            folder=folder,
            options=plan.options,
            hardware=plan.device.hardware,
            threads=plan.device.threads,
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
    inputs = {"dataset": dataset, "weights": weights, "data": data}
    write_json(
        run.folder / INPUTS_FILE,
        {name: record.model_dump(mode="json") for name, record in inputs.items()},
    )
    tracker.log_dataset_input(dataset, data)
    tracker.set_tags(
        {
            names.FINGERPRINT: workload_fingerprint(run.options, data.data_sha256),
            names.WORKLOAD: json.dumps(fingerprint_parts(run.options, data.data_sha256)),
            "twolevers.weights_sha256": weights.sha256,
            "twolevers.weights_source": weights.source,
        }
    )
    for file in (run.folder / INPUTS_FILE, run.folder / DATA_FOLDER / "ledger.json"):
        tracker.log_file(file)


@dataclass(frozen=True)
class Inputs:
    """What a run was made of: the records of its inputs, the data as read in its own folder."""

    dataset: DatasetFile
    weights: WeightsFolder
    data: TokenisedData


def kept_inputs(folder: Path) -> Inputs | None:
    """What `note_inputs` kept in a run's folder; None where it kept nothing yet.

    Raises:
        InputError: it is no longer whole.
    """
    file = folder / INPUTS_FILE
    if not file.is_file():
        return None
    try:
        stored = read_json(file)
        data = TokenisedData.model_validate(stored["data"] | {"path": folder / DATA_FOLDER})
        sizes = [len(load_split(data, split)) for split in SPLITS]
        if sizes != [data.num_train, data.num_val, data.num_test]:
            raise ValueError(f"{data.path} holds other rows than the run had")
        return Inputs(
            DatasetFile.model_validate(stored["dataset"]),
            WeightsFolder.model_validate(stored["weights"]),
            data,
        )
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(
            Problem(
                "run",
                folder.name,
                f"what it was made of is no longer whole in {folder} ({error})",
                "start a new run",
            )
        ) from error


def read_run_options(folder: Path) -> FineTuneOptions:
    """The resolved options stored in a run's folder.

    Raises:
        InputError: the folder is not on this machine.
    """
    file = folder / OPTIONS_FILE
    if (folder / names.CLASSIFY_OPTIONS_FILE).is_file():
        what = "classifies texts, it answers no instructions and is not continued"
        way_out = f"ask it: twolevers classify --run {folder.name[:8]} TEXT"
        raise InputError(Problem("run", folder.name, what, way_out))
    if not file.is_file():
        raise InputError(
            Problem(
                "run",
                folder.name,
                "its folder is not on this machine",
                f"set TWOLEVERS_HOME to the home that holds {OPTIONS_FILE} of this run",
            )
        )
    return FineTuneOptions.model_validate(read_json(file))


def plan_run(
    asked: FineTuneOptions, run_id: str | None = None, *, data_is_kept: bool = False
) -> Plan:
    """What will run: `asked`, or the options of the run to continue, changed where asked.

    Args:
        data_is_kept: the file that the data came from need not be there any more.

    Raises:
        InputError: every option that cannot be used.
    """
    if run_id:
        folder = Home().run_folder(run_id)
        asked = resume_options(read_run_options(folder), asked, load_settings())
        data_is_kept = data_is_kept or (folder / INPUTS_FILE).is_file()
    return make_plan(asked, load_settings(), data_is_kept=data_is_kept)


def resume_plan(run_id: str, given: FineTuneOptions) -> Plan:
    """What goes on when a user asks for exactly what is set in `given`, defaults included.

    Raises:
        InputError: every change that would make it another run.
    """
    stored = read_run_options(Home().run_folder(run_id))
    changes: dict[str, object] = {}
    for name, value in given.model_dump(exclude_unset=True).items():
        changes.update(value if isinstance(value, dict) else {name: value})
    kept = (Home().run_folder(run_id) / INPUTS_FILE).is_file()
    settings = load_settings()
    return make_plan(changed_options(stored, changes, settings), settings, data_is_kept=kept)


def run_to_continue(resume_from: str) -> str:
    """MLflow's id of the run that `resume_from` names.

    Raises:
        InputError: no such run, or one that has finished.
    """
    found = find_run(resume_from, Home(), load_settings())
    check_kind(found, resume_from, names.FINE_TUNE, where="resume")
    if found.run_id is None:
        raise InputError(
            Problem("resume", resume_from, "is no run's checkpoint", "see `twolevers runs`")
        )
    if found.status == "FINISHED":
        raise InputError(
            Problem(
                "resume",
                resume_from,
                "this run has finished, there is nothing to continue",
                f'to train its model further: twolevers fine-tune --weights "{found.checkpoint}"',
            )
        )
    return found.run_id


def _link_folder(source: Path, target: Path) -> None:
    def link(file: str, to: str) -> None:
        try:
            os.link(file, to)
        except OSError:
            shutil.copy2(file, to)

    with atomic_folder(target) as temporary:
        shutil.copytree(source, temporary, copy_function=link, dirs_exist_ok=True)
