"""One file over HTTP: resumed after a break, retried where that may help, whole or not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import tenacity

from twolevers.data.catalog import check_address, is_loopback
from twolevers.errors import FetchError, InputError
from twolevers.progress import Progress

ATTEMPTS = 5
FIRST_WAIT = 0.5
"""Seconds before the second attempt; doubled before each further one."""
LONGEST_WAIT = 30.0
"""Seconds. A server that asks for more (Retry-After) is asked again no later."""

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_MAX_REDIRECTS = 10
_CONDITIONS = {"If-None-Match", "If-Modified-Since"}
_WAY_OUT = "Or download the file yourself and give its path: --dataset path/to/file"


@dataclass
class Download:
    """What was got: the validators that the server named, and whether anything was new."""

    etag: str | None = None
    last_modified: str | None = None
    unchanged: bool = False
    """The server says that the copy with these validators is still good; nothing was written."""


class _Interrupted(FetchError):  # noqa: N818 - no name that anybody sees
    """An attempt that failed in a way that another may not."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message, retryable=True)
        self.wait = wait


def download(
    address: str, path: Path, progress: Progress, *, pinned: bool, known: Download | None = None
) -> Download:
    """Stream `address` into the file `path`, which the caller verifies and renames.

    A broken transfer goes on where it broke. Where no hash is pinned it does so only if the
    server can say that the file is still the same one; otherwise it starts anew.

    Args:
        pinned: the caller will check a SHA-256.
        known: validators of a copy that is there already.

    Raises:
        FetchError: not to be had. `retryable` where it was the network or the server's trouble.
    """
    known = known or Download()
    state = Download()
    path.write_bytes(b"")
    attempts = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=_wait,
        retry=tenacity.retry_if_exception_type(_Interrupted),
        reraise=True,
    )
    local = is_loopback(urlsplit(address).hostname or "")
    # A proxy is for the outside; this machine is reached directly.
    with httpx.Client(timeout=_TIMEOUT, trust_env=not local) as client:
        try:
            attempts(_attempt, client, address, path, progress, pinned, known, state)
        except _Interrupted as error:
            raise FetchError(str(error), retryable=True) from None
    return state


def _wait(retry: tenacity.RetryCallState) -> float:
    error = retry.outcome.exception() if retry.outcome else None
    asked = error.wait if isinstance(error, _Interrupted) else 0.0
    return min(max(FIRST_WAIT * 2 ** (retry.attempt_number - 1), asked), LONGEST_WAIT)


def _attempt(
    client: httpx.Client,
    address: str,
    path: Path,
    progress: Progress,
    pinned: bool,
    known: Download,
    state: Download,
) -> None:
    done = path.stat().st_size
    # Only a strong validator tells that two transfers are of the same bytes.
    same = state.etag if state.etag and not state.etag.startswith("W/") else None
    if done and not pinned and not same:
        done = 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "twolevers"}
    if done:
        headers["Range"] = f"bytes={done}-"
        if same and not pinned:
            headers["If-Range"] = same
    elif known.etag:
        headers["If-None-Match"] = known.etag
    elif known.last_modified:
        headers["If-Modified-Since"] = known.last_modified
    try:
        response = _open(client, address, headers)
        try:
            if response.status_code == 304 and headers.keys() & _CONDITIONS:
                state.unchanged = True
                return
            if response.status_code == 416:
                path.write_bytes(b"")
                raise _Interrupted(f"{address}: the server's file is shorter than what it sent")
            _check(address, response)
            _store(response, path, done, progress, state)
        finally:
            response.close()
    except httpx.InvalidURL as error:
        raise FetchError(f"{address} is no address: {error}") from None
    except (httpx.TransportError, httpx.StreamError) as error:
        reason = str(error) or type(error).__name__
        message = f"{address} could not be reached or broke off: {reason}. {_WAY_OUT}"
        raise _Interrupted(message) from None


def _open(client: httpx.Client, address: str, headers: dict[str, str]) -> httpx.Response:
    """The response at the end of all redirects, its body not read yet."""
    start_is_local = is_loopback(urlsplit(address).hostname or "")
    for _ in range(_MAX_REDIRECTS):
        response = client.send(client.build_request("GET", address, headers=headers), stream=True)
        target = response.headers.get("location")
        if response.status_code not in (301, 302, 303, 307, 308) or not target:
            return response
        response.close()
        following = urljoin(address, target)
        try:
            check_address(following)
        except InputError as error:
            raise FetchError(f"{address} leads elsewhere: {error}. {_WAY_OUT}") from None
        if is_loopback(urlsplit(following).hostname or "") and not start_is_local:
            raise FetchError(f"{address} leads to this machine ({following}). {_WAY_OUT}")
        address = following
    raise FetchError(f"{address}: more than {_MAX_REDIRECTS} redirects. {_WAY_OUT}")


def _check(address: str, response: httpx.Response) -> None:
    """Refuse what is no success, and say which refusals another attempt may get round."""
    status = response.status_code
    if status in (200, 206):
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise FetchError(f"{address} comes encoded as {encoding}. {_WAY_OUT}")
        return
    meaning = {
        401: "it asks for a login",
        403: "it refuses access",
        404: "there is nothing there; check the address",
        410: "it is gone",
    }.get(status, response.reason_phrase or "unexpected answer")
    message = f"{address} answered {status}: {meaning}. {_WAY_OUT}"
    if status in (408, 425, 429) or status >= 500:
        asked = response.headers.get("retry-after", "")
        raise _Interrupted(message, float(asked) if asked.isdecimal() else 0.0)
    raise FetchError(message)


def _store(
    response: httpx.Response, path: Path, done: int, progress: Progress, state: Download
) -> None:
    etag = response.headers.get("etag")
    if response.status_code == 200:
        done = 0
    else:
        part = response.headers.get("content-range", "")
        if not part.startswith(f"bytes {done}-") or (etag and state.etag and etag != state.etag):
            path.write_bytes(b"")
            raise _Interrupted(f"the server sent another part than asked for: {part!r}")
    state.etag = etag
    state.last_modified = response.headers.get("last-modified")
    length = response.headers.get("content-length", "")
    total = done + int(length) if length.isdecimal() else None
    progress.start("download", total, "bytes")
    mode: Any = "ab" if done else "wb"
    try:
        with path.open(mode) as file:
            for chunk in response.iter_raw():
                file.write(chunk)
                done += len(chunk)
                progress.advance(done)
    finally:
        progress.finish()
    if total is not None and done != total:
        raise _Interrupted(f"{done} of {total} bytes came")
