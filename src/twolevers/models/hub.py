"""One file from a Hugging Face hub: resumed after a break, verified before it counts.

The requests are huggingface_hub's, and so is the layout of its cache, so that files which
transformers has fetched are found and ours are found by transformers. One thing is done here:
the transfer itself. `hf_hub_download` throws a broken transfer away when it gives up or is
killed; here what has arrived stays, under the hub's own name for the content, and the next
run asks for the rest. A blob that lies ready is then taken into the cache by the library.

The library reads its environment once, at import. A worker lives longer than that, so the
address and the offline switch are read here, at each call.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import HTTPError
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import WeakFileLock
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from twolevers.errors import FetchError, InputError, Problem
from twolevers.files import sha256_of
from twolevers.models.known_hashes import remember_sha256
from twolevers.models.transfer import forward_warnings, transfer
from twolevers.progress import Progress
from twolevers.settings import Home

DEFAULT_ENDPOINT = "https://huggingface.co"
_TRUE = {"1", "ON", "YES", "TRUE"}
_RETRYABLE = {408, 416, 425, 429, 500, 502, 503, 504}
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HubFile:
    """A file of a hub's repository, at one revision."""

    repo: str
    revision: str
    name: str
    sha256: str | None = None
    """What the content must hash to, where that is known beforehand."""

    def __str__(self) -> str:
        return f"{self.name} of {self.repo} at revision {self.revision}"


def endpoint() -> str:
    """The hub's address as the environment has it now.

    Raises:
        InputError: `HF_ENDPOINT` is no http address.
    """
    address = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_ENDPOINT
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        usable = False
    if not usable:
        shown = without_credentials(address)
        what = "is no address of a hub"
        way_out = f"set it to something like {DEFAULT_ENDPOINT}, or unset it"
        raise InputError(Problem("HF_ENDPOINT", shown, what, way_out))
    return address


def is_offline() -> bool:
    """Whether the environment forbids requests to a hub now."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in _TRUE


def without_credentials(address: str) -> str:
    """An address that may be shown: no user, no password, no query."""
    return re.sub(r"//[^/@]*@", "//", address).split("?")[0]


def cache_folders(home: Home) -> list[Path]:
    """Where downloads go, then where else copies may lie.

    The user's own `HF_HUB_CACHE` or `HF_HOME` where set. Otherwise the home's cache; what
    other programs have fetched into the standard place is used from there.
    """
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return [_expanded(os.environ[name])]
    if os.environ.get("HF_HOME"):
        return [_expanded(os.environ["HF_HOME"]) / "hub"]
    standard = _expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return [home.cache / "hub", standard / "huggingface" / "hub"]


def cached(file: HubFile, home: Home) -> Path | None:
    """The copy on this disk, with no request; None where there is none."""
    for folder in cache_folders(home):
        repo = folder / repo_folder_name(repo_id=file.repo, repo_type="model")
        path = repo / "snapshots" / file.revision / file.name
        if path.is_file():
            return path
    return None


def hub_hash(path: Path) -> str | None:
    """The SHA-256 under which the hub itself keeps a cached file: the name of its blob."""
    name = path.resolve().name
    return name if _SHA256.fullmatch(name) else None


def download(file: HubFile, home: Home, progress: Progress) -> Path:
    """Fetches `file` into the cache, over a broken or a bad copy too.

    Returns:
        Its path in the cache.

    Raises:
        FetchError: refused, not there, not reachable, or not what was announced.
        InputError: `HF_ENDPOINT` is no address.
    """
    # The library's copies of the environment, brought up to date; and no side requests of its.
    constants.HF_HUB_OFFLINE = False
    constants.HF_HUB_DISABLE_TELEMETRY = True
    attempts = Retrying(
        stop=stop_after_attempt(3),
        wait=wait_exponential(multiplier=0.25, max=5),
        retry=retry_if_exception(lambda e: isinstance(e, FetchError) and e.retryable),
        reraise=True,
    )
    with forward_warnings(progress):
        return attempts(_download_once, file, home, progress)


def _download_once(file: HubFile, home: Home, progress: Progress) -> Path:
    address, cache = endpoint(), cache_folders(home)[0]
    repo = repo_folder_name(repo_id=file.repo, repo_type="model")
    try:
        url = hf_hub_url(file.repo, file.name, revision=file.revision, endpoint=address)
        metadata = get_hf_file_metadata(url, endpoint=address)
        etag = _checked_etag(file, address, metadata)
        blob, lock = cache / repo / "blobs" / etag, cache / ".locks" / repo / f"{etag}.part.lock"
        for folder in (blob.parent, lock.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock):
            found = sha256_of(blob) if blob.is_file() else None
            if found is None or found != (_expected(file, etag) or found):
                partial = blob.with_name(f"{etag}.part")
                resumed = transfer(url, partial, metadata.size, progress)
                found = _verify(file, etag, partial, address, resumed)
                partial.replace(blob)
            pointer = cache / repo / "snapshots" / file.revision / file.name
            if pointer.is_file() and not pointer.samefile(blob):
                pointer.unlink()  # a file system without links: the bad copy itself
        path = Path(
            hf_hub_download(
                file.repo, file.name, revision=file.revision, cache_dir=cache, endpoint=address
            )
        )
        remember_sha256(path, found, home)
        return path
    except HTTPError as error:
        raise _explained(error, file, address) from None
    except UnicodeError:  # its message would show the token
        message = "HF_TOKEN holds characters that no token has; copy it again, or unset it"
        raise FetchError(message) from None
    except (ValueError, ImportError) as error:  # a proxy that is no address, or of another kind
        message = "no request can be made: check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
        raise FetchError(f"{message} ({type(error).__name__})") from None
    except OSError as error:
        raise _disk_error(error, file, cache) from None


def _checked_etag(file: HubFile, address: str, metadata: Any) -> str:
    """The hub's name for the content, once its answer is known to be about what was asked."""
    shown = without_credentials(address)
    etag, commit = metadata.etag or "", metadata.commit_hash
    if not commit or not re.fullmatch(r"[\w.+=-]{1,128}", etag):
        raise FetchError(f"{shown} does not answer as a Hugging Face hub does; check HF_ENDPOINT")
    if re.fullmatch(r"[0-9a-f]{40}", file.revision) and commit != file.revision:
        raise FetchError(f"{shown} has no {file}: it answers with revision {commit}")
    if file.sha256 and _SHA256.fullmatch(etag) and etag != file.sha256:
        raise FetchError(
            f"{shown} offers other content for {file}: "
            f"SHA-256 {etag} instead of {file.sha256}; set HF_ENDPOINT to another hub"
        )
    return etag


def _expected(file: HubFile, etag: str) -> str | None:
    return file.sha256 or (etag if _SHA256.fullmatch(etag) else None)


def _verify(file: HubFile, etag: str, partial: Path, address: str, resumed: bool) -> str:
    """SHA-256 of a transfer; with the wrong content it is deleted, never to be taken up again."""
    expected, found = _expected(file, etag), sha256_of(partial)
    if expected is not None and found != expected:
        partial.unlink()
        raise FetchError(
            f"{file} came from {without_credentials(address)} with the wrong content: "
            f"SHA-256 {found} instead of {expected}. It was deleted. Run again; if that does not "
            "help, set HF_ENDPOINT to another hub",
            retryable=resumed,  # the earlier part may be to blame: once more from the beginning
        )
    return found


def _explained(error: HTTPError, file: HubFile, address: str) -> FetchError:
    """What a failed request means to a user. Never shows headers, a token or a signed link."""
    shown = without_credentials(address)
    response = getattr(error, "response", None)
    status = response.status_code if response is not None else None
    if status in (401, 403):
        return FetchError(
            f"{shown} refuses {file} ({status}): set HF_TOKEN to a token that may read it, or "
            "unset one that has expired"
        )
    if status == 404:
        return FetchError(f"{shown} has no {file} (404); check HF_ENDPOINT")
    if status is not None:
        message = f"{shown} cannot serve {file} now ({status})"
        return FetchError(message, retryable=status in _RETRYABLE)
    kind = type(error).__name__
    # Other kinds may quote headers, and so the token.
    detail = f": {error}" if kind in ("ConnectError", "ReadError", "RemoteProtocolError") else ""
    reason = without_credentials(f"{kind}{detail}")[:200]
    return FetchError(f"{shown} cannot be reached for {file} ({reason})", retryable=True)


def _disk_error(error: OSError, file: HubFile, cache: Path) -> FetchError:
    if error.errno is None:  # huggingface_hub's own: fewer or more bytes than announced
        return FetchError(f"{file} did not arrive whole; run again", retryable=True)
    return FetchError(
        f"{file} cannot be stored under {cache} ({error.strerror}); "
        "make room, or set HF_HUB_CACHE to another folder"
    )


def _expanded(path: str) -> Path:
    return Path(os.path.expandvars(path)).expanduser().absolute()
