"""A data set on this disk, verified: from the package, a path, the cache, or an address."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twolevers.data.catalog import DatasetEntry, find_dataset
from twolevers.data.download import Download, download
from twolevers.errors import FetchError, InputError, Problem
from twolevers.files import atomic_file, hash_of, read_json, sha256_of, write_json
from twolevers.progress import Progress
from twolevers.records import DatasetFile
from twolevers.settings import Home

PINNED, SHIPPED, LOCAL = "pinned sha256", "shipped", "local file"
NOT_VERIFIED = "not verified"


def fetch_dataset(dataset: str, home: Home, progress: Progress) -> DatasetFile:
    """The file behind a catalog name, a path or an address.

    What was fetched lies in the cache under its SHA-256. With a pinned hash it is used from there
    with no request. An address without one is asked each time whether its file has changed; where
    it cannot be asked, the copy of last time is used and a note says so.

    Raises:
        InputError: no such name or file, or an address that is not fetched from.
        FetchError: it could not be had, or is not what was expected.
    """
    entry = find_dataset(dataset)
    if entry.path:
        return _local(entry)
    assert entry.address
    folder = home.cache / "data"
    try:
        if entry.sha256:
            return _pinned(entry, entry.address, entry.sha256, folder, progress)
        return _unpinned(entry, entry.address, folder, progress)
    except OSError as error:
        raise FetchError(
            f"{error.filename or folder} cannot be written: {error.strerror or error}. "
            "Free or open that folder, or name another home: TWOLEVERS_HOME"
        ) from error


def _local(entry: DatasetEntry) -> DatasetFile:
    assert entry.path
    try:
        sha256 = sha256_of(entry.path)
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise InputError(
            Problem("--dataset", str(entry.path), what, "check that it is there and readable")
        ) from None
    # Whatever has a licence is in the catalog, and what is there with a path came with the package.
    return _file(entry, entry.path, sha256, SHIPPED if entry.licence else LOCAL)


def _pinned(
    entry: DatasetEntry, address: str, sha256: str, folder: Path, progress: Progress
) -> DatasetFile:
    path = folder / sha256
    if not path.is_file() or sha256_of(path) != sha256:
        with atomic_file(path) as temporary:
            download(address, temporary, progress, pinned=True)
            _refuse_page(address, temporary)
            found = sha256_of(temporary)
            if found != sha256:
                raise FetchError(
                    f"{address} is not the file that was published: its SHA-256 is {found}, "
                    f"expected was {sha256}; nothing of it was kept. Something on the way changes "
                    "it, or it was replaced: download it yourself and give its path to --dataset"
                )
    return _file(entry, path, sha256, PINNED)


def _unpinned(entry: DatasetEntry, address: str, folder: Path, progress: Progress) -> DatasetFile:
    note = folder / "addresses" / f"{hash_of(address)}.json"
    known = _remembered(note, folder)
    before = Download(known.get("etag"), known.get("last_modified")) if known else None
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as scratch:
        temporary = Path(scratch) / "part"
        try:
            got = download(address, temporary, progress, pinned=False, known=before)
        except FetchError as error:
            if not (error.retryable and known):
                raise
            progress.note(f"{address} cannot be reached; using the copy of {known['fetched']}")
            got = Download(unchanged=True)
        if not known or not got.unchanged:
            _refuse_page(address, temporary)
            known = {
                "address": address,
                "sha256": sha256_of(temporary),
                "etag": got.etag,
                "last_modified": got.last_modified,
                "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            temporary.replace(folder / known["sha256"])
            write_json(note, known)
    return _file(entry, folder / known["sha256"], known["sha256"], NOT_VERIFIED)


def _remembered(note: Path, folder: Path) -> dict[str, Any] | None:
    """What is known of an address's last fetch, if its copy is still there and whole."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        known: dict[str, Any] = read_json(note)
        if sha256_of(folder / known["sha256"]) == known["sha256"]:
            return known
    return None


def _refuse_page(address: str, path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml", b"<!--")):
        raise FetchError(
            f"{address} gives a web page, not data: it may ask for a login, or be the page that "
            "shows the file. Give the address of the file itself (on GitHub: the button 'Raw')"
        )


def _file(entry: DatasetEntry, path: Path, sha256: str, verified: str) -> DatasetFile:
    return DatasetFile(
        name=entry.name,
        path=path,
        sha256=sha256,
        num_bytes=path.stat().st_size,
        verified=verified,
    )
