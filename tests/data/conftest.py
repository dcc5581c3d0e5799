"""Files of entries, and a small web server on loopback that breaks when told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from twolevers.data import download
from twolevers.data.fetch import fetch_dataset
from twolevers.progress import Silent
from twolevers.records import DatasetFile
from twolevers.settings import Home


def make_entries(count: int) -> list[dict[str, str]]:
    """Entries that all differ."""
    return [
        {"instruction": f"Double {i}.", "input": "", "output": f"{2 * i}", "kind": "sums"}
        for i in range(count)
    ]


@pytest.fixture
def entries() -> Callable[[int], list[dict[str, str]]]:
    return make_entries


@pytest.fixture
def dataset(tmp_path: Path, home: Home) -> Callable[[list[Any]], DatasetFile]:
    """A list of entries as a fetched data file."""

    def make(rows: list[Any]) -> DatasetFile:
        path = tmp_path / "entries.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        return fetch_dataset(str(path), home, Silent())

    return make


class Notes(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done: list[int] = []

    def advance(self, done: int, **figures: float) -> None:
        self.done.append(done)

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@dataclass
class Server:
    """What the next requests get, in turn (the last one again and again), and what they asked."""

    address: str = ""
    answers: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)

    def answer(self, *answers: dict[str, Any]) -> None:
        """Each: `status`, `body`, `headers`, and `cut`, the bytes after which it breaks off."""
        self.answers[:] = answers
        self.requests.clear()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "FIRST_WAIT", 0.01)
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append({"path": self.path, **dict(self.headers)})
            answer = state.answers[0] if len(state.answers) == 1 else state.answers.pop(0)
            body, status = answer.get("body", b""), answer.get("status", 200)
            headers = dict(answer.get("headers", {}))
            asked = self.headers.get("Range")
            unchanged = self.headers.get("If-Range") in (None, headers.get("ETag"))
            if status == 200 and asked and unchanged and not answer.get("no_ranges"):
                start = int(asked.removeprefix("bytes=").rstrip("-"))
                status = 206
                headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
                body = body[start:]
            if headers.get("ETag") and self.headers.get("If-None-Match") == headers["ETag"]:
                status, body = 304, b""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: answer.get("cut", len(body))])

        def log_message(self, *_: object) -> None: ...

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{web.server_port}"
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    web.shutdown()
    web.server_close()
    thread.join()
