"""Repeats the newest run; prints the flow run's id."""

from __future__ import annotations

import flows  # noqa: F401 - prepares the environment before Prefect is imported
from flows.rerun import rerun

print(rerun("latest", return_state=True).state_details.flow_run_id)
