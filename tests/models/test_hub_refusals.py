"""What cannot be fetched: the hub refuses, nobody answers, the environment forbids it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants, hf_hub_download
from loopback_hub import Hub

from twolevers.errors import FetchError, InputError
from twolevers.models.catalog import MODELS, ModelEntry
from twolevers.records import WeightsFolder
from twolevers.settings import Home

pytestmark = pytest.mark.usefixtures("quick_client")


THREE_WAYS = ("1. ", "2. pass --weights FOLDER", "3. choose --model gpt2-nano")


@pytest.mark.parametrize(
    ("status", "message", "requests"),
    [
        (404, r"has no model.safetensors of openai-community/gpt2 at revision 607a.* \(404\)", 1),
        (401, r"\(401\): set HF_TOKEN", 1),
        (403, r"\(403\): set HF_TOKEN", 1),
        (503, r"cannot serve .* now \(503\)", 3),
        (429, r"cannot serve .* now \(429\)", 3),
    ],
)
def test_what_the_hub_refuses(
    hub: Hub,
    fetch: Callable[[], WeightsFolder],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    status: int,
    message: str,
    requests: int,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    hub.faults.status = status
    with caplog.at_level(logging.DEBUG), pytest.raises(FetchError, match=message) as error:
        fetch()
    assert all(way in str(error.value) for way in THREE_WAYS)
    assert hub.endpoint in str(error.value)
    assert error.value.retryable == (requests > 1)
    assert ("check the network" in str(error.value)) == (requests > 1)
    assert len(hub.requests) == requests
    assert all(request.authorized for request in hub.requests)
    assert "secretsecret" not in str(error.value) + caplog.text


def test_nobody_listens(fetch: Callable[[], WeightsFolder], tiny_small: ModelEntry) -> None:
    with pytest.raises(FetchError, match=r"http://127.0.0.1:9 cannot be reached") as error:
        fetch()
    assert all(way in str(error.value) for way in THREE_WAYS)
    assert "HF_ENDPOINT" in str(error.value)
    assert error.value.retryable


def test_offline_and_no_copy(
    hub: Hub, fetch: Callable[[], WeightsFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FetchError, match="unset HF_HUB_OFFLINE") as error:
        fetch()
    assert all(way in str(error.value) for way in THREE_WAYS)
    assert not error.value.retryable
    assert hub.requests == []
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    fetch()


def test_a_library_that_was_imported_offline_follows_the_environment(
    hub: Hub, fetch: Callable[[], WeightsFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch().verified == "hub's own hash"


@pytest.mark.parametrize(
    "address", ["huggingface.co", "ftp://mirror", "http://", "http://host:port", "http://[::1"]
)
def test_an_endpoint_that_is_no_address(
    address: str,
    fetch: Callable[[], WeightsFolder],
    monkeypatch: pytest.MonkeyPatch,
    tiny_small: ModelEntry,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(InputError, match=r"HF_ENDPOINT .* is no address of a hub"):
        fetch()


@pytest.mark.parametrize("token", ["hf_sécret", "hf_se\rcret"])
def test_credentials_are_never_shown(
    hub: Hub, fetch: Callable[[], WeightsFolder], monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint.replace("//", "//user:password@"))
    hub.faults.status = 500
    with pytest.raises(FetchError) as error:
        fetch()
    assert "cret" not in str(error.value)
    assert "password" not in str(error.value)
    assert error.value.__suppress_context__


@pytest.mark.parametrize("commit", ["", "f" * 40])
def test_a_server_that_is_no_hub_or_has_another_revision(
    hub: Hub, fetch: Callable[[], WeightsFolder], commit: str
) -> None:
    hub.faults.commit = commit
    message = "answers with revision ffff" if commit else "does not answer as a Hugging Face hub"
    with pytest.raises(FetchError, match=message):
        fetch()
    assert hub.gets() == []


def test_the_users_own_cache_is_used_both_ways(
    hub: Hub,
    home: Home,
    tmp_path: Path,
    fetch: Callable[[], WeightsFolder],
    monkeypatch: pytest.MonkeyPatch,
    tiny_small: ModelEntry,
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    mine = fetch()
    assert mine.path.is_relative_to(tmp_path / "hf" / "hub")
    assert tiny_small.repo is not None
    theirs = hf_hub_download(
        tiny_small.repo,
        "model.safetensors",
        revision=tiny_small.revision,
        cache_dir=tmp_path / "hf" / "hub",
        local_files_only=True,
    )
    assert Path(theirs).parent == mine.path
    monkeypatch.delenv("HF_HOME")
    (tmp_path / "other caches").mkdir()
    (tmp_path / "hf").rename(tmp_path / "other caches" / "huggingface")
    hub.requests.clear()
    assert fetch().sha256 == mine.sha256  # what transformers fetched is found in its own place
    assert hub.requests == []


def test_a_full_disk_says_how_much_is_needed(
    hub: Hub, fetch: Callable[[], WeightsFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(FetchError, match=r"has 1,000 bytes free, and the download needs 6,"):
        fetch()


def test_a_cache_that_cannot_be_written(
    hub: Hub, home: Home, fetch: Callable[[], WeightsFolder]
) -> None:
    home.cache.mkdir()
    (home.cache / "hub").write_text("a file in the way", encoding="utf-8")
    with pytest.raises(FetchError, match="cannot be stored under"):
        fetch()


def test_every_catalog_entry_that_is_fetched_has_a_revision() -> None:
    for entry in MODELS.values():
        assert (entry.repo is None) == (entry.revision is None)


@pytest.mark.parametrize("proxy", ["no address", "socks5://127.0.0.1:9", "ftp://user:secret@x"])
def test_a_proxy_that_cannot_be_used(
    proxy: str,
    hub: Hub,
    fetch: Callable[[], WeightsFolder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    close_session()  # a proxy is looked up when the client is made
    try:
        with pytest.raises(FetchError) as error:
            fetch()
    finally:
        close_session()
    assert "secret" not in str(error.value)
