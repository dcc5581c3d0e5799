"""The command as a user runs it: in a process of its own, with sockets open to loopback only; or,
where no process is needed to see what is asked, in this one."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flows import cli
from twolevers.settings import Home, Settings
from twolevers.tracking.queries import find_run, list_runs, read_summary

BLOCKED = Path(__file__).parent / "flows" / "blocked"
OF_THE_HOME = ("PREFECT_HOME", "PREFECT_LOCAL_STORAGE_PATH")
"""Set in this process for the home of whoever runs the tests, by importing `flows`."""


@dataclass
class Command:
    """`twolevers` over one home folder."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, script: Path | None = None) -> subprocess.Popen[str]:
        what = [str(script)] if script else ["-m", "flows.cli"]
        return subprocess.Popen(
            [sys.executable, *what, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=self.home,
            env={
                **{name: text for name, text in os.environ.items() if name not in OF_THE_HOME},
                "TWOLEVERS_HOME": str(self.home),
                "PYTHONPATH": str(BLOCKED),
                "COLUMNS": "120",
                **self.env,
            },
        )

    def run(
        self, *arguments: str, status: int = 0, script: Path | None = None, seconds: float = 600
    ) -> str:
        """Standard output of a command that must end with `status`."""
        process = self.start(*arguments, script=script)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{arguments} took over {seconds} s\n{out[-3000:]}\n{err[-3000:]}")
        assert process.returncode == status, f"{out[-3000:]}\n{err[-6000:]}"
        assert "Traceback" not in err, err
        return out if status == 0 else out + err

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def run_here(self, *arguments: str, status: int = 0) -> str:
        """What a command that starts no flow prints: without a process, which costs seconds."""
        said, ended = io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
            patch.setenv("TWOLEVERS_HOME", str(self.home))
            patch.chdir(self.home)
            try:
                with cli.clear_errors():
                    cli.app(arguments)
            except SystemExit as end:
                ended = int(end.code or 0)
        assert ended == status, said.getvalue()
        return said.getvalue()

    def summary(self, run: str = "latest") -> dict[str, Any]:
        """What `twolevers show RUN --json` prints, without a process for it."""
        home = Home(self.home)
        return read_summary(find_run(run, home, Settings()))

    def statuses(self) -> list[str]:
        """The runs' statuses, the newest first."""
        return list(list_runs(Home(self.home), Settings())["status"])


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """Reads the process's output up to the line that holds `text`."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    pytest.fail(f"{text!r} never came:\n{seen}\n{process.stderr.read() if process.stderr else ''}")
