"""Output that goes to the log of a run, beside handlers that write where they like."""

from __future__ import annotations

import logging
import os

import pytest

from tasks import output


def test_a_library_that_logs_to_standard_error_by_itself_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Logging's handler of last resort has no stream of its own; some libraries take it."""
    logged = logging.getLogger("twolevers.test_output")
    lines: list[str] = []
    monkeypatch.setattr(logged, "info", lines.append)
    monkeypatch.setattr(output, "get_run_logger", lambda: logged)
    library = logging.getLogger("a.library")
    monkeypatch.setattr(library, "handlers", [logging.lastResort])
    with output.output_in_log():
        os.write(1, b"printed\n")
        library.warning("logged")
    assert "printed" in lines
    assert "printed" not in capfd.readouterr().out
