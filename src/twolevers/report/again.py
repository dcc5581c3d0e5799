"""The page of any run, made again from what is left of it: in its folder, and tracked."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twolevers.errors import InputError, Problem
from twolevers.files import write_output
from twolevers.report.classification import page_again
from twolevers.report.reported import CHANGED, CURVES, FILES, Reported, kept_files
from twolevers.report.run_page import run_html
from twolevers.report.write import REPORT_FILE
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.curves import fetch_files, read_curves
from twolevers.tracking.kinds import check_kind
from twolevers.tracking.queries import find_run, read_summary
from twolevers.tracking.run_info import RunInfo


def report_again(run: str, output: Path | None, home: Home, settings: Settings) -> Path:
    """Write the page of `run`.

    Args:
        output: the file; by default `report.html` in the run's folder, and where that is not on
            this machine `report-ID.html` where the user stands.

    Raises:
        InputError: no such run, one that has nothing to show, or a file that cannot be written.
    """
    found = check_kind(find_run(run, home, settings), run, names.FINE_TUNE, names.CLASSIFY)
    if found.folder and found.tags.get(names.KIND) == names.CLASSIFY:
        return write_output(output or found.folder / REPORT_FILE, page_again(found.folder))
    reported = reported_run(found, home, settings)
    if reported.is_empty:
        raise InputError(
            Problem(
                "run",
                reported.run_id,
                f"has nothing to show: it is {found.status} and got as far as no data and no step",
                "choose a run that trained: twolevers runs",
            )
        )
    folder = found.folder if found.folder and found.folder.is_dir() else None
    default = folder / REPORT_FILE if folder else Path(f"report-{reported.run_id[:8]}.html")
    return write_output(output or default, run_html(reported))


def reported_run(found: RunInfo, home: Home, settings: Settings) -> Reported:
    """What is known of a run that was looked up.

    Raises:
        InputError: it is a checkpoint that belongs to no run.
    """
    if found.run_id is None:
        raise InputError(
            Problem(
                "run",
                str(found.checkpoint),
                "is a checkpoint of no run",
                "see the runs there are: twolevers runs",
            )
        )
    # A resumed run's parameters stay as they were first; what changed since stands in tags.
    changed = {
        key.removeprefix(CHANGED): value
        for key, value in found.tags.items()
        if key.startswith(CHANGED)
    }
    summary = read_summary(found)
    return Reported(
        summary=summary | {"name": summary.get("name") or found.name},
        params=found.params | changed,
        tags=found.tags,
        metrics=found.metrics,
        curves=read_curves(found.run_id, CURVES, home, settings),
        **_files(found, home, settings),
    )


def _files(found: RunInfo, home: Home, settings: Settings) -> dict[str, Any]:
    """From the run's folder, its artifacts on this disk, or a server's."""
    here = [place for place in (found.folder, found.artifacts) if place and place.is_dir()]
    if here:
        return kept_files(here)
    with TemporaryDirectory() as folder:
        fetch_files(found, FILES, Path(folder), home, settings)
        return kept_files([Path(folder)])
