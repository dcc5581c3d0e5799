"""What child processes and libraries print, in the log of the run that they work for."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from prefect.logging import get_run_logger

from tasks.progress import shown_by


@contextmanager
def output_in_log() -> Iterator[None]:
    """Lines that reach this process's standard output and error go to the run's log.

    A child process writes to the same two, and so does a library that isn't written in Python.
    Where a terminal shows the run, they go there as ever.
    """
    if shown_by.get():
        yield
        return
    kept = {number: os.dup(number) for number in (1, 2)}
    read_end, write_end = os.pipe()
    reader = threading.Thread(target=_forward, args=(read_end, get_run_logger().info), daemon=True)
    # The log's own lines keep to the console, or each would come back as a line to log.
    with (
        os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace") as console,
        _consoles(console),
    ):
        for number in kept:
            os.dup2(write_end, number)
        os.close(write_end)
        reader.start()
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, before in kept.items():
                os.dup2(before, number)
                os.close(before)
            reader.join(1)  # it ends with the last process that writes


def _forward(read_end: int, log: Callable[[str], object]) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if text := line.rstrip():
                log(text)


@contextmanager
def _consoles(console: TextIO) -> Iterator[None]:
    """Everything that logs to standard output or error logs to `console` while the block lasts."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    found: dict[Any, TextIO] = {
        handler: handler.stream
        for logger in loggers
        for handler in getattr(logger, "handlers", ())
        if getattr(handler, "stream", None) in (sys.stdout, sys.stderr) and not _follows(handler)
    }
    for handler in found:
        _write_to(handler, console)
    try:
        yield
    finally:
        for handler, stream in found.items():
            _write_to(handler, stream)


def _follows(handler: Any) -> bool:
    """Whether it asks for `sys.stderr` anew with each line, as logging's handler of last resort:
    it cannot be told where to write."""
    return isinstance(getattr(type(handler), "stream", None), property)


def _write_to(handler: Any, stream: TextIO) -> None:
    handler.setStream(stream)
    if hasattr(handler, "console"):  # Prefect's, which prints through rich
        handler.console.file = stream
