"""`twolevers report`: a run's page, written again."""

from __future__ import annotations

from pathlib import Path

from twolevers.environment import writable_home
from twolevers.report.again import report_again
from twolevers.settings import load_settings


def report(run: str, output: Path | None) -> None:
    """Write the page and say where.

    Raises:
        InputError: no such run, or one that has nothing to show.
    """
    print(f"Written to {report_again(run, output, writable_home(), load_settings())}")
