"""SHA-256 of big files, computed once: a file of the same size, time and inode is the same.

Gigabytes are not hashed at every run. What was found out about a file is kept in the cache of
the home folder, one small JSON a file, safe to delete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twolevers.files import hash_of, read_json, sha256_of, write_json
from twolevers.settings import Home


def known_sha256(file: Path, home: Home) -> str:
    """SHA-256 of `file`, from the record where the file has not changed since."""
    record = _read(file, home)
    if "sha256" not in record:
        # Stat first: a file that changes while it is hashed then has no record that fits it.
        record = {"file": _identity(file), "sha256": sha256_of(file)}
        write_json(_record_path(file, home), record)
    return str(record["sha256"])


def remember_sha256(file: Path, sha256: str, home: Home) -> None:
    """What `known_sha256` shall say without reading the file: it was hashed just now."""
    write_json(_record_path(file, home), {"file": _identity(file), "sha256": sha256})


def is_known_good(file: Path, home: Home) -> bool:
    """Whether `mark_good` was called for `file` as it is now."""
    return _read(file, home).get("good") is True


def mark_good(file: Path, home: Home) -> None:
    """Remember that the numbers in `file` were looked through and are numbers."""
    record = {"file": _identity(file), "sha256": known_sha256(file, home), "good": True}
    write_json(_record_path(file, home), record)


def _identity(file: Path) -> dict[str, Any]:
    real = file.resolve()
    stat = real.stat()
    return {
        "path": str(real),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "inode": stat.st_ino,
    }


def _record_path(file: Path, home: Home) -> Path:
    return home.cache / "hashes" / f"{hash_of(str(file.resolve()))[:32]}.json"


def _read(file: Path, home: Home) -> dict[str, Any]:
    """The record of `file`; empty where there is none, or it is of other content, or broken."""
    try:
        record = read_json(_record_path(file, home))
        return record if record["file"] == _identity(file) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
