"""Close as KILLED what a kill left open in MLflow, soon after: `up` looks every second.

(Without `up`, the next run does it when it begins, or whoever looks at runs.)
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress

from flows.parts import MLFLOW, say
from flows.quick_imports import quick_imports
from twolevers.settings import Home, load_settings
from twolevers.tracking.alive import close_orphans, killed_runs

# Longest time for closing, and the shortest between two tries.
CLOSE_SECONDS = 60.0


class KilledRuns:
    """Looks for runs of a home whose process is gone, and closes them in another process, since
    MLflow is large."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.next_try = 0.0

    def close(self) -> None:
        """Say which were closed; where the store does not answer, try again later."""
        if time.monotonic() < self.next_try or not killed_runs(self.home):
            return
        log = self.home.prefect / "close-killed.log"
        with log.open("w", encoding="utf-8") as errors, suppress(subprocess.TimeoutExpired):
            closed = subprocess.run(
                [sys.executable, "-m", "flows.close_killed"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=CLOSE_SECONDS,
                check=False,
            )
            for run_id in closed.stdout.split():
                say(MLFLOW, f"closed as KILLED what was killed: run {run_id}")
        self.next_try = time.monotonic() + CLOSE_SECONDS


def main() -> None:
    """Print the ids of the closed, one a line."""
    with quick_imports():
        for run_id in close_orphans(Home(), load_settings()):
            print(run_id)


if __name__ == "__main__":
    main()
