"""The bytes of one file over http, taken up where they broke off, with progress."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers

from twolevers.errors import FetchError
from twolevers.progress import Progress


def transfer(url: str, partial: Path, size: int | None, progress: Progress) -> bool:
    """Appends to `partial` what it lacks of the file at `url`.

    huggingface_hub takes a broken connection up by itself a few times; when it gives up, what
    has arrived stays in `partial` for the next call.

    Args:
        size: bytes of the whole file, None where the hub does not say.

    Returns:
        Whether bytes of an earlier call were built upon.

    Raises:
        FetchError: no room on the disk.
        HTTPError, OSError: as `http_get`.
    """
    done = partial.stat().st_size if partial.exists() else 0
    if size is not None and done > size:
        partial.unlink()
        done = 0
    free = shutil.disk_usage(partial.parent).free
    if size is not None and size - done > free:
        raise FetchError(
            f"{partial.parent} has {free:,} bytes free, and the download needs {size - done:,}; "
            "make room, or set HF_HUB_CACHE to another folder"
        )
    progress.start("download", size, "bytes")
    if done:
        progress.note(f"{done:,} bytes are here already; asking for the rest")
        progress.advance(done)
    try:
        with partial.open("ab") as out:
            http_get(
                url,
                out,
                resume_size=done,
                # Compressed on the way, a part of the file cannot be asked for.
                headers={**build_hf_headers(), "Accept-Encoding": "identity"},
                expected_size=size,
                tqdm_class=_meter(progress),
            )
            out.flush()
            os.fsync(out.fileno())
    except HfHubHTTPError as error:
        if error.response is not None and error.response.status_code == 416:
            partial.unlink(missing_ok=True)  # more bytes here than there: begin anew
        raise
    finally:
        progress.finish()
    return done > 0


def _meter(progress: Progress) -> Any:
    """What `http_get` takes for a progress bar; hands the bytes on."""

    class Meter:
        def __init__(self, *_: Any, initial: int = 0, **__: Any) -> None:
            self.done = initial

        def __enter__(self) -> Meter:
            return self

        def __exit__(self, *_: object) -> None: ...

        def update(self, n: int = 1) -> None:
            self.done += n
            progress.advance(self.done)

    return Meter


@contextmanager
def forward_warnings(progress: Progress) -> Iterator[None]:
    """The library's warnings of broken connections become notes, without the address in them."""

    def forward(record: logging.LogRecord) -> bool:
        if "resume download" in str(record.msg):
            progress.note("the connection to the hub broke; asking for the rest")
        return record.levelno >= logging.ERROR

    loggers = [logging.getLogger(f"huggingface_hub.{n}") for n in ("file_download", "utils._http")]
    for logger in loggers:
        logger.addFilter(forward)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(forward)
