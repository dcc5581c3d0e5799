"""Runs the flow with what no machine can do together; prints the flow run's id."""

from __future__ import annotations

import flows  # noqa: F401 - prepares the environment before Prefect is imported
from flows.fine_tune import fine_tune
from twolevers.options import DataOptions

state = fine_tune(
    device="cpu", precision="float16", data=DataOptions(max_length=2000), return_state=True
)
print(state.state_details.flow_run_id)
