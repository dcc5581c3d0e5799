"""Fetching: from a path, the package, the cache, and a server on loopback that breaks."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from twolevers.data import catalog
from twolevers.data.catalog import DATASETS, DatasetEntry, find_dataset
from twolevers.data.fetch import fetch_dataset
from twolevers.errors import FetchError, InputError
from twolevers.files import sha256_of
from twolevers.progress import Silent
from twolevers.settings import Home

BODY = json.dumps([{"instruction": f"Say {i}.", "output": str(i)} for i in range(9000)]).encode()


def kept(home: Home) -> list[str]:
    """All files under the cache."""
    return sorted(path.name for path in home.cache.rglob("*") if path.is_file())


@pytest.fixture
def pinned(server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The catalog entry `pinned`: the server's file with its hash."""
    (tmp_path / "body").write_bytes(BODY)
    sha256 = sha256_of(tmp_path / "body")
    address = f"{server.address}/data.json"
    entry = DatasetEntry("pinned", "", "", "", 9000, address=address, sha256=sha256)
    monkeypatch.setitem(catalog.DATASETS, "pinned", entry)
    return sha256


def test_the_catalog() -> None:
    chapter = find_dataset("chapter7")
    assert chapter.num_entries == 1100
    assert chapter.address
    assert "28c65cdfbc3338e2e040016eea4b7fdf556e4d57" in chapter.address
    assert chapter.sha256 == "7e09a9af353722ca15c18bc580f093f9c39d3178335a75177319cb1e1d163944"
    for entry in DATASETS.values():
        assert all((entry.description, entry.source, entry.licence))
        assert entry.num_entries >= 1000


def test_a_local_file(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my data.json").write_bytes(BODY)
    monkeypatch.chdir(tmp_path)
    found = fetch_dataset("my data.json", home, Silent())
    assert found.path == tmp_path / "my data.json"
    assert (found.num_bytes, found.verified) == (len(BODY), "local file")
    assert found.sha256 == sha256_of(found.path)
    assert not home.cache.exists()


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("chapter 7", r"'chapter 7': no such data set.*did you mean 'chapter7'"),
        ("dta.json", r"did you mean 'data.json'"),
        ("", r"no such data set"),
        ("x" * 5000, r"no such data set"),
        ("a\0b", r"no such data set"),
        (".", r"is a folder, not a file"),
        ("ftp://example.org/x", r"ftp:// is not fetched from"),
        ("http://example.org/x", r"give its https address"),
        ("http://127.0.0.1.example.org/x", r"give its https address"),
        ("https://", r"names no host"),
        ("https://[::1/x", r"is no address"),
    ],
)
def test_what_is_no_data_set(
    dataset: str, message: str, tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.json").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        fetch_dataset(dataset, home, Silent())


def test_a_misspelt_path_is_compared_by_its_last_part(tmp_path: Path, home: Home) -> None:
    (tmp_path / "data.json").touch()
    with pytest.raises(InputError) as caught:
        fetch_dataset(str(tmp_path / "dta.json"), home, Silent())
    assert f"did you mean {str(tmp_path / 'data.json')!r}?" in str(caught.value)
    with pytest.raises(InputError) as caught:  # near by its folder alone
        fetch_dataset(str(tmp_path / "reviews.csv"), home, Silent())
    assert "did you mean" not in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_repeated(home: Home) -> None:
    with pytest.raises(InputError, match="holds a user name or password") as caught:
        fetch_dataset("https://me:secret@example.org/x.json", home, Silent())
    assert "secret" not in str(caught.value)


def test_a_pinned_file_is_asked_for_once(server: Any, home: Home, pinned: str, notes: Any) -> None:
    server.answer({"body": BODY})
    first = fetch_dataset("pinned", home, notes)
    assert (first.sha256, first.verified, first.name) == (pinned, "pinned sha256", "pinned")
    assert first.path == home.cache / "data" / pinned
    assert notes.done[-1] == len(BODY)
    assert fetch_dataset("pinned", home, Silent()) == first
    assert len(server.requests) == 1
    first.path.write_bytes(b"damaged")
    assert fetch_dataset("pinned", home, Silent()) == first
    assert len(server.requests) == 2
    assert kept(home) == [pinned]


def test_a_broken_transfer_goes_on_where_it_broke(server: Any, home: Home, pinned: str) -> None:
    half = len(BODY) // 2
    server.answer({"body": BODY, "cut": half}, {"status": 503}, {"body": BODY})
    assert fetch_dataset("pinned", home, Silent()).sha256 == pinned
    ranges = [request.get("Range") for request in server.requests]
    assert ranges == [None, f"bytes={half}-", f"bytes={half}-"]


def test_a_file_replaced_while_it_came(server: Any, home: Home, pinned: str) -> None:
    cut = {"body": BODY[::-1], "cut": 1000, "headers": {"ETag": '"old"'}}
    server.answer(cut, {"body": BODY, "headers": {"ETag": '"new"'}})
    assert fetch_dataset("pinned", home, Silent()).sha256 == pinned
    assert len(server.requests) == 3


def test_unchanged_without_being_asked(server: Any, home: Home) -> None:
    server.answer({"status": 304})
    with pytest.raises(FetchError, match="answered 304"):
        fetch_dataset(f"{server.address}/x", home, Silent())


def test_a_server_that_cannot_resume(server: Any, home: Home, pinned: str) -> None:
    server.answer({"body": BODY, "cut": 1000}, {"body": BODY, "no_ranges": True})
    assert fetch_dataset("pinned", home, Silent()).sha256 == pinned


def test_a_wrong_checksum_keeps_nothing(server: Any, home: Home, pinned: str) -> None:
    server.answer({"body": BODY[:-1] + b" "})
    with pytest.raises(FetchError, match=rf"SHA-256 is \w+, expected was {pinned}") as caught:
        fetch_dataset("pinned", home, Silent())
    assert not caught.value.retryable
    assert len(server.requests) == 1
    assert kept(home) == []


@pytest.mark.parametrize(
    ("status", "message", "attempts"),
    [
        (404, "nothing there", 1),
        (401, "asks for a login", 1),
        (403, "refuses access", 1),
        (418, "answered 418", 1),
        (500, "answered 500", 5),
        (429, "answered 429", 5),
    ],
)
def test_refusals(
    server: Any, home: Home, pinned: str, status: int, message: str, attempts: int
) -> None:
    server.answer({"status": status})
    with pytest.raises(FetchError, match=rf"{message}.*--dataset path/to/file") as caught:
        fetch_dataset("pinned", home, Silent())
    assert type(caught.value) is FetchError
    assert caught.value.retryable == (attempts > 1)
    assert len(server.requests) == attempts
    assert kept(home) == []


def test_a_web_page_is_not_data(server: Any, home: Home, pinned: str) -> None:
    server.answer({"body": b"\n<!DOCTYPE html><html>Log in</html>"})
    for dataset in ("pinned", f"{server.address}/page"):
        with pytest.raises(FetchError, match="gives a web page, not data"):
            fetch_dataset(dataset, home, Silent())
    assert kept(home) == []


def test_redirects(server: Any, home: Home, pinned: str) -> None:
    server.answer({"status": 302, "headers": {"Location": "/elsewhere"}}, {"body": BODY})
    assert fetch_dataset("pinned", home, Silent()).sha256 == pinned
    assert server.requests[1]["path"] == "/elsewhere"
    for target, message in (
        ("http://example.org/x", "leads elsewhere.*https"),
        ("file:///etc/passwd", "file:// is not fetched from"),
        ("/again", "more than 10 redirects"),
    ):
        server.answer({"status": 302, "headers": {"Location": target}})
        with pytest.raises(FetchError, match=message):
            fetch_dataset(f"{server.address}/x", home, Silent())


def test_an_unpinned_address_is_asked_again(server: Any, home: Home, notes: Any) -> None:
    address = f"{server.address}/data.json"
    server.answer({"body": BODY, "headers": {"ETag": '"one"'}})
    first = fetch_dataset(address, home, Silent())
    assert (first.verified, first.name) == ("not verified", address)
    assert fetch_dataset(address, home, Silent()) == first
    assert [request.get("If-None-Match") for request in server.requests] == [None, '"one"']
    server.answer({"body": BODY + b" ", "headers": {"ETag": '"two"'}})
    second = fetch_dataset(address, home, Silent())
    assert second.sha256 != first.sha256
    server.answer({"status": 503})
    assert fetch_dataset(address, home, notes) == second
    assert "cannot be reached; using the copy of 20" in notes.lines[0]
    server.answer({"status": 404})
    with pytest.raises(FetchError, match="nothing there"):
        fetch_dataset(address, home, Silent())


def test_an_unpinned_transfer_resumes_only_the_same_file(server: Any, home: Home) -> None:
    other = BODY.replace(b"Say", b"Cry")
    one, two = {"ETag": '"one"'}, {"ETag": '"two"'}
    server.answer({"body": BODY, "headers": one, "cut": 5000}, {"body": other, "headers": two})
    assert fetch_dataset(f"{server.address}/x", home, Silent()).path.read_bytes() == other
    assert server.requests[1]["If-Range"] == '"one"'
    server.answer({"body": BODY, "cut": 5000}, {"body": other})
    assert fetch_dataset(f"{server.address}/y", home, Silent()).path.read_bytes() == other
    assert "Range" not in server.requests[1]


def test_no_network_and_no_copy(home: Home, server: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/x"
    with pytest.raises(FetchError, match="could not be reached") as caught:
        fetch_dataset(address, home, Silent())
    assert caught.value.retryable
    assert kept(home) == []


def test_a_home_that_cannot_be_written(server: Any, tmp_path: Path, pinned: str) -> None:
    (tmp_path / "file").touch()
    server.answer({"body": BODY})
    with pytest.raises(FetchError, match=r"cannot be written.*TWOLEVERS_HOME"):
        fetch_dataset("pinned", Home(tmp_path / "file"), Silent())


def test_a_transfer_encoded_on_its_way(server: Any, home: Home, pinned: str) -> None:
    server.answer({"body": BODY, "headers": {"Content-Encoding": "gzip"}})
    with pytest.raises(FetchError, match="comes encoded as gzip"):
        fetch_dataset("pinned", home, Silent())
    assert server.requests[0]["Accept-Encoding"] == "identity"
