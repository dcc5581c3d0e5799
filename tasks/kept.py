"""Results that grow with the data, such as scores per kind of task, as files: Prefect keeps what a
stage returns in its own storage, which is for paths and a few figures."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from twolevers.files import read_json, write_json
from twolevers.records import Record

R = TypeVar("R", bound=Record)


class Kept(Record):
    """A result in a file."""

    path: Path


def keep(result: Record, path: Path) -> Kept:
    """Write a result; the stage returns where."""
    write_json(path, result.model_dump(mode="json"))
    return Kept(path=path)


def read_kept(kept: Kept, kind: type[R]) -> R:
    """The result, for what comes after the stage."""
    return kind.model_validate(read_json(kept.path))
