"""A flow run below a task run, in a process of its own.

In one process a run would inherit what the one before it left: memory counted in its peak, warm
libraries counted in its favour.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pkgutil import resolve_name
from typing import Any

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.runtime import task_run
from prefect.states import Crashed, State

from tasks.tags import TAG

STOP_SECONDS = 60.0
"""Longest time that a child gets for its checkpoint."""
ALONE_SECONDS = 3.0
"""Ctrl-C has reached the child too: it is given this long before it is asked."""
PREFIX = re.compile(r"^Flow run encountered an exception: (\w+: )?")


def run_child(module: str, name: str, parameters: dict[str, Any]) -> State[Any]:
    """Run the flow `name` of `module` below the present task run; how it ended, whatever that is.

    Stopped meanwhile, it stops the child first, which writes a checkpoint.
    """
    flow: Flow[..., Any] = resolve_name(f"{module}:{name}")
    with get_client(sync_client=True) as client:
        child = client.create_flow_run(
            flow,
            parameters=flow.serialize_parameters(parameters),
            parent_task_run_id=task_run.id,
            tags=[TAG],
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect.engine", str(child.id)],
            env={**os.environ, "PREFECT__FLOW_ENTRYPOINT": f"{module}.{name}"},
        )
        try:
            process.wait()
        finally:
            _end(process)
        ended = client.read_flow_run(child.id).state
    if ended is None or not ended.is_final():
        return Crashed(message=f"its process ended with status {process.returncode}")
    return ended


def reason_of(ended: State[Any]) -> str:
    """Why a child did not complete, in its own words."""
    return PREFIX.sub("", ended.message or ended.name)


def _end(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    try:
        process.wait(ALONE_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        process.wait(max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
