"""The real huggingface_hub client against a hub on loopback."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights
from huggingface_hub import constants
from loopback_hub import Hub

from twolevers.errors import FetchError
from twolevers.files import sha256_of
from twolevers.models.catalog import ModelEntry
from twolevers.models.fetch import fetch_weights
from twolevers.models.weights import load_model
from twolevers.progress import Silent
from twolevers.records import WeightsFolder
from twolevers.settings import Home

pytestmark = pytest.mark.usefixtures("quick_client")


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
