"""Lays the run-time table out once an argument, parameters as JSON; prints the flow runs' ids."""

from __future__ import annotations

import json
import sys

import flows  # noqa: F401 - prepares the environment before Prefect is imported
from flows.run_time_table import run_time_table

if __name__ == "__main__":
    for asked in sys.argv[1:]:
        ended = run_time_table(**json.loads(asked), return_state=True)
        print(ended.state_details.flow_run_id)
