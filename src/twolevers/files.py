"""Files on disk: hashes, and writes that are whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twolevers.errors import InputError, Problem


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of(value: object) -> str:
    """SHA-256 of a plain value (what JSON can hold), the same whatever the keys' order."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; renamed to it if the block succeeds, else removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    temporary.chmod(0o644)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`; takes its place if the block succeeds, else removed.

    A folder that stands there already is replaced; between the two renames it is gone for an
    instant, never half-written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    temporary.chmod(0o755)
    try:
        yield temporary
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
            path.replace(old / path.name)
            temporary.replace(path)
            shutil.rmtree(old)
        else:
            temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_output(path: Path, content: str | bytes, option: str = "--output") -> Path:
    """A file that the user named by an option, text in UTF-8; whole or not there.

    Raises:
        InputError: it cannot be written there.
    """
    try:
        with atomic_file(path) as temporary:
            temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise InputError(
            Problem(option, str(path), f"cannot be written ({error.strerror})", "name another")
        ) from error
    return path


def write_json(path: Path, value: Any) -> None:
    """A value as readable JSON, written whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(
            json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8"
        )


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))
