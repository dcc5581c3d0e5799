"""The data sets that have a name. A new one is one entry of this table."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from twolevers.embedded import DATASET_PATH, MESSAGES_PATH
from twolevers.errors import InputError, Problem, nearest


@dataclass(frozen=True)
class DatasetEntry:
    """One named data set: it ships with the package (`path`) or lies at an address with a pinned
    SHA-256. `num_entries` is a count of rows."""

    name: str
    description: str
    source: str
    licence: str
    num_entries: int
    path: Path | None = None
    address: str | None = None
    sha256: str | None = None


DATASETS = {
    entry.name: entry
    for entry in (
        DatasetEntry(
            "embedded",
            "ships with twolevers; written for gpt2-nano, over 20 kinds of task",
            "twolevers",
            "Apache-2.0",
            1_100,
            path=DATASET_PATH,
        ),
        DatasetEntry(
            "messages",
            "ships with twolevers; short messages, spam or not, for `twolevers classify`",
            "twolevers",
            "Apache-2.0",
            1_000,
            path=MESSAGES_PATH,
        ),
        DatasetEntry(
            "chapter7",
            "the chapter's own data: 1,100 instructions of many kinds",
            "Build a Large Language Model (From Scratch), chapter 7, S. Raschka",
            "Apache-2.0",
            1_100,
            address="https://raw.githubusercontent.com/rasbt/LLMs-from-scratch/"
            "28c65cdfbc3338e2e040016eea4b7fdf556e4d57/ch07/01_main-chapter-code/"
            "instruction-data.json",
            sha256="7e09a9af353722ca15c18bc580f093f9c39d3178335a75177319cb1e1d163944",
        ),
    )
}


def find_dataset(dataset: str) -> DatasetEntry:
    """A catalog name, an address or a path as an entry. Reads nothing but whether a file is there.

    Raises:
        InputError: no such name or file, or an address that is not fetched from.
    """
    if dataset in DATASETS:
        return DATASETS[dataset]
    if "://" in dataset:
        check_address(dataset)
        return DatasetEntry(dataset, "", dataset, "", 0, address=dataset)
    try:
        path = Path(dataset).expanduser().absolute()
    except RuntimeError:  # ~name of nobody here
        path = Path(dataset).absolute()
    try:
        found, folder = bool(dataset) and path.is_file(), bool(dataset) and path.is_dir()
    except (OSError, ValueError):  # a name too long for any file, a zero byte
        found = folder = False
    if not found:
        what = f"no such data set and no such file{_hint(dataset, path)}"
        if folder:
            what = "is a folder, not a file"
        raise InputError(
            Problem(
                "--dataset",
                dataset,
                what,
                f"choose one of: {', '.join(DATASETS)}, or give a file or an https address",
            )
        )
    return DatasetEntry(dataset, "", str(path), "", 0, path=path)


def _hint(dataset: str, path: Path) -> str:
    """What the user may have meant: a name of the catalog, or a file beside the misspelt one. Of a
    path its last part counts: what comes before is the same for all files there."""
    try:
        beside = [inner.name for inner in path.parent.iterdir() if inner.is_file()]
    except (OSError, ValueError):
        beside = []
    near = nearest(path.name, [*DATASETS, *beside])
    if near in beside and "://" not in dataset:
        near = str(Path(dataset).parent / near)
    return f" (did you mean {near!r}?)" if near else ""


def check_address(address: str) -> None:
    """https anywhere, http on this machine only, and no password in it.

    Raises:
        InputError: the address is anything else.
    """
    what = ""
    try:
        parts = urlsplit(address)
        host, scheme = parts.hostname or "", parts.scheme.lower()
        if parts.username or parts.password:
            # The address is stored with the run and shown to whoever looks at it.
            address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
            what, way_out = "holds a user name or password", "download the file and give its path"
        elif scheme not in ("https", "http"):
            what, way_out = f"{scheme}:// is not fetched from", "give an https address or a path"
        elif not host:
            what, way_out = "names no host", "give the whole address"
        elif scheme == "http" and not is_loopback(host):
            what = "http is neither private nor safe from changes on its way"
            way_out = "give its https address (http is for this machine only)"
    except ValueError as error:
        what, way_out = f"is no address: {error}", "give the whole address"
    if what:
        raise InputError(Problem("--dataset", address, what, way_out))


def is_loopback(host: str) -> bool:
    """Whether a host name means this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
