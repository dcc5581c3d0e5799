"""What the run-time table is made of: one row a run that was timed over two epochs.

A classification is timed over all of its epochs, whatever their number. It stands in a table of
its own: the fingerprint holds task and epochs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from twolevers import __version__
from twolevers.run_times import Column, column_of
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.queries import finished_runs
from twolevers.tracking.run_info import RunInfo

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "run_id",
    "model",
    "device",
    "hardware",
    "threads",
    "precision",
    "two_epoch_seconds",
    "core_version",
    "fingerprint",
    "workload",
    "started",
)


def list_timings(home: Home, settings: Settings) -> pd.DataFrame:
    """Finished runs with a two-epoch time and classifications, the newest first; a run without a
    time has no row.

    Columns as `COLUMNS`: times in seconds (a classification's of all its epochs), `threads` those
    of the CPU, `workload` the parts of the fingerprint by name (None for a run that did not keep
    them), `started` in UTC.
    """
    import pandas as pd

    rows = [_row(run) for run in finished_runs(home, settings)]
    classified = finished_runs(home, settings, kind=names.CLASSIFY)
    rows += [_row(run) | {"two_epoch_seconds": _undisturbed(run)} for run in classified]
    rows.sort(key=lambda row: str(row["started"]), reverse=True)
    timed = [row for row in rows if row["two_epoch_seconds"] and row["fingerprint"]]
    return pd.DataFrame(timed, columns=list(COLUMNS))


def _row(run: RunInfo) -> dict[str, object]:
    threads, workload = run.tags.get(names.THREADS, ""), run.tags.get(names.WORKLOAD)
    return {
        "run_id": run.run_id,
        "model": run.model,
        "device": run.device,
        "hardware": run.tags.get(names.HARDWARE, ""),
        "threads": int(threads) if threads.isdigit() else None,
        "precision": run.precision,
        "two_epoch_seconds": run.metrics.get("two_epoch_seconds"),
        "core_version": run.tags.get("version.twolevers", ""),
        "fingerprint": run.fingerprint,
        "workload": json.loads(workload) if workload else None,
        "started": run.started,
    }


def _undisturbed(run: RunInfo) -> float | None:
    """What training took, of a run that no retry began again or went on with."""
    disturbed = len(run.flow_run_ids) > 1 or names.RESUMED in run.tags
    return None if disturbed else run.metrics.get("train_seconds")


def train_seconds(
    home: Home, settings: Settings, *, model: str, column: Column, fingerprint: str
) -> list[float]:
    """What undisturbed runs of one workload took to train, of any number of epochs, the newest
    first: one model on one device, by this version of the code. Checkpoints are not counted."""
    return [
        seconds
        for run in finished_runs(home, settings, model=model, fingerprint=fingerprint)
        if (seconds := run.metrics.get("train_seconds"))
        and len(run.flow_run_ids) < 2  # one that was continued was disturbed
        and run.tags.get("version.twolevers") == __version__
        and column_of(_row(run)) == column
    ]
