"""Lays the run-time table out with parameters given as JSON; prints the flow run's id."""

from __future__ import annotations

import json
import sys

import flows  # noqa: F401 - prepares the environment before Prefect is imported
from flows.run_time_table import run_time_table

if __name__ == "__main__":
    ended = run_time_table(**json.loads(sys.argv[1]), return_state=True)
    print(ended.state_details.flow_run_id)
