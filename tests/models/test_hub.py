"""The real huggingface_hub client against a hub on loopback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights
from huggingface_hub import close_session, constants, hf_hub_download
from loopback_hub import Hub

from twolevers.errors import FetchError, InputError
from twolevers.files import sha256_of
from twolevers.models.catalog import MODELS, ModelEntry
from twolevers.models.fetch import fetch_weights
from twolevers.models.weights import load_model
from twolevers.progress import Silent
from twolevers.records import WeightsFolder
from twolevers.settings import Home


@dataclass
class Recorder(Silent):
    """Keeps what it is told."""

    totals: list[int | None] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def start(self, stage: str, total: int | None, unit: str) -> None:
        assert (stage, unit) == ("download", "bytes")
        self.totals.append(total)

    def advance(self, done: int, **figures: float) -> None:
        self.done.append(done)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client writes 10 MB at a time; the files here are smaller."""
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100_000)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def fetch(home: Home) -> Callable[[], WeightsFolder]:
    return lambda: fetch_weights("gpt2-small", None, home, Silent())


def content_of(hub: Hub) -> Path:
    return next(hub.folder.rglob("model.safetensors"))


def kept(home: Home) -> list[str]:
    """Names of the blobs and partial transfers in the cache."""
    return [path.name for path in (home.cache / "hub").glob("models--*/blobs/*")]


def test_a_whole_download(hub: Hub, home: Home, pinned_small: ModelEntry) -> None:
    progress = Recorder()
    fetched = fetch_weights("gpt2-small", None, home, progress)
    assert fetched.sha256 == pinned_small.sha256 == sha256_of(content_of(hub))
    assert fetched.model == pinned_small.name
    assert fetched.source == f"hub:openai-community/gpt2@{pinned_small.revision}"
    assert fetched.verified == "pinned sha256"
    assert fetched.path.is_relative_to(home.cache)
    load_model(fetched.path, pinned_small.config)
    size = content_of(hub).stat().st_size
    assert progress.totals == [size]
    assert progress.done == sorted(progress.done)
    assert progress.done[-1] == size
    assert len(progress.done) > 10
    assert {request.path for request in hub.requests} == {
        f"/openai-community/gpt2/resolve/{pinned_small.revision}/model.safetensors"
    }


def test_what_is_here_is_used_with_no_request_and_hashed_once(
    hub: Hub, fetch: Callable[[], WeightsFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch()
    assert first.verified == "hub's own hash"
    hub.requests.clear()
    monkeypatch.setattr("twolevers.models.known_hashes.sha256_of", lambda path: "never")
    assert fetch() == first
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert fetch() == first
    assert hub.requests == []


def test_a_broken_transfer_goes_on_where_it_broke(hub: Hub, home: Home) -> None:
    size = content_of(hub).stat().st_size
    hub.faults.cut_at = size // 2
    progress = Recorder()
    fetched = fetch_weights("gpt2-small", None, home, progress)
    assert fetched.sha256 == sha256_of(content_of(hub))
    first, second = hub.gets()
    assert first.range is None
    assert second.range is not None
    begin = int(second.range.removeprefix("bytes=").rstrip("-"))
    assert size // 2 - 100_000 < begin <= size // 2
    assert first.sent + second.sent < size + 100_000
    assert progress.notes == ["the connection to the hub broke; asking for the rest"]


def test_a_transfer_given_up_goes_on_in_the_next_run(
    hub: Hub, home: Home, fetch: Callable[[], WeightsFolder], caplog: pytest.LogCaptureFixture
) -> None:
    size = content_of(hub).stat().st_size
    hub.faults.cut_at, hub.faults.cuts = size // 2, 1000

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    progress = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", die)  # the user stops it while the client waits
        with pytest.raises(KeyboardInterrupt):
            fetch_weights("gpt2-small", None, home, progress)
    [partial] = kept(home)
    assert partial.endswith(".part")
    hub.faults.cuts = 0
    hub.requests.clear()
    progress = Recorder()
    fetched = fetch_weights("gpt2-small", None, home, progress)
    assert fetched.sha256 == sha256_of(content_of(hub))
    [request] = hub.gets()
    assert request.sent < size // 2 + 100_000
    assert "are here already" in progress.notes[0]
    assert kept(home) == [fetched.sha256]
    assert not caplog.records  # the client's own warnings hold the address


def test_a_hub_that_cannot_resume_sends_the_whole(
    hub: Hub, fetch: Callable[[], WeightsFolder]
) -> None:
    hub.faults.cut_at, hub.faults.ignore_range = 3_000_000, True
    assert fetch().sha256 == sha256_of(content_of(hub))


def test_content_that_lies_on_another_host(
    hub: Hub, fetch: Callable[[], WeightsFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_token")
    hub.faults.redirect, hub.faults.cut_at = True, 3_000_000
    fetched = fetch()
    assert fetched.sha256 == sha256_of(content_of(hub))
    assert fetched.verified == "hub's own hash"
    there = [request for request in hub.gets() if request.path.startswith("/content/")]
    assert [request.range is None for request in there] == [True, False]
    assert not any(request.authorized for request in there)  # the token is the hub's alone
    assert all(request.authorized for request in hub.gets() if request not in there)


def test_two_at_once_fetch_once(hub: Hub, fetch: Callable[[], WeightsFolder]) -> None:
    with ThreadPoolExecutor(3) as pool:
        results = [future.result() for future in [pool.submit(fetch) for _ in range(3)]]
    assert results[0] == results[1] == results[2]
    assert len(hub.gets()) == 1


def test_a_file_system_without_links(
    hub: Hub,
    fetch: Callable[[], WeightsFolder],
    monkeypatch: pytest.MonkeyPatch,
    pinned_small: ModelEntry,
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.are_symlinks_supported", lambda _: False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS_WARNING", True)
    file = fetch().path / "model.safetensors"
    assert not file.is_symlink()
    file.write_bytes(b"damaged")
    assert fetch().sha256 == pinned_small.sha256 == sha256_of(file)


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


@pytest.mark.parametrize("junk", [1_000, 50_000_000])
def test_a_partial_file_with_other_content_is_no_obstacle(
    hub: Hub, home: Home, fetch: Callable[[], WeightsFolder], junk: int
) -> None:
    digest = sha256_of(content_of(hub))
    blobs = home.cache / "hub" / "models--openai-community--gpt2" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{digest}.part").write_bytes(b"\0" * junk)
    assert fetch().sha256 == digest
    assert kept(home) == [digest]


def test_wrong_content_is_refused_and_not_kept(
    hub: Hub, home: Home, fetch: Callable[[], WeightsFolder], pinned_small: ModelEntry
) -> None:
    hub.faults.wrong_content = True
    with pytest.raises(FetchError, match="wrong content") as error:
        fetch()
    assert f"instead of {pinned_small.sha256}" in str(error.value)
    assert "set HF_ENDPOINT to another hub" in str(error.value)
    assert kept(home) == []
    hub.faults.wrong_content = False
    assert fetch().sha256 == pinned_small.sha256


def test_other_content_is_refused_before_it_is_sent(
    hub: Hub, fetch: Callable[[], WeightsFolder], pinned_small: ModelEntry
) -> None:
    hub.faults.announce = "0" * 64
    with pytest.raises(FetchError, match=f"SHA-256 {'0' * 64} instead of {pinned_small.sha256}"):
        fetch()
    assert hub.gets() == []


def test_a_copy_damaged_on_the_disk_is_fetched_again(
    hub: Hub, home: Home, fetch: Callable[[], WeightsFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fetch().path / "model.safetensors"
    digest = sha256_of(file)
    with file.open("r+b") as opened:
        opened.seek(-1, 2)
        opened.write(b"\x55")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FetchError, match=rf"the copy in the cache has the wrong content.*{digest}"):
        fetch()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert fetch().sha256 == digest == sha256_of(file)


def test_another_models_weights_on_the_hub_are_refused_and_not_kept(
    hub: Hub, home: Home, fetch: Callable[[], WeightsFolder]
) -> None:
    write_random_weights(content_of(hub).parent, replace(TINY, num_layers=1))
    for _ in range(2):
        with pytest.raises(FetchError, match=r"lacks h\.1\.attn\.c_attn\.weight"):
            fetch()
        assert kept(home) == []


def test_a_hub_without_hashes_is_not_called_verified(
    hub: Hub, fetch: Callable[[], WeightsFolder]
) -> None:
    hub.faults.announce = "abc123"
    assert fetch().verified == "not verified"


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
