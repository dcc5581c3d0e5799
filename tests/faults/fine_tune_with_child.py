"""The flow `fine-tune` with a child process beside its stages, as a library might start one."""

from __future__ import annotations

import subprocess
import sys

import flows.fine_tune as job
from twolevers.records import FineTuneRun, RunSummary

CHILD = """
import os, sys, time
print(f"the child's id is {os.getpid()}", flush=True)
print("the child complains", file=sys.stderr, flush=True)
time.sleep(600)
"""
_own_stages = job._stages


def stages_with_child(run: FineTuneRun) -> RunSummary:
    subprocess.Popen([sys.executable, "-c", CHILD])
    return _own_stages(run)


job._stages = stages_with_child
fine_tune = job.fine_tune
