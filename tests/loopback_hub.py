"""A small hub on loopback, with faults to switch on: what huggingface_hub asks for, no more.

    python tests/loopback_hub.py FOLDER [--port 8080] [--cut-at BYTES] [--status 401]

serves FOLDER/OWNER/NAME/FILE at /OWNER/NAME/resolve/REVISION/FILE, any revision; then
`HF_ENDPOINT=http://127.0.0.1:8080 twolevers …`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Faults:
    """What goes wrong; everything off at first."""

    status: int | None = None
    """Answer every request with this."""
    cut_at: int | None = None
    """Close the connection once this many bytes of the file were sent, `cuts` times."""
    cuts: int = 1
    wrong_content: bool = False
    """Flip a byte of what is sent; the announced hash stays right."""
    announce: str | None = None
    """ETag to give instead of the file's SHA-256."""
    commit: str | None = None
    """Revision to answer with instead of the one asked for; empty: none at all."""
    ignore_range: bool = False
    """Answer 200 with the whole file, whatever part was asked for."""
    redirect: bool = False
    """Send whoever asks on to another host for the content, as huggingface.co does."""


@dataclass
class Request:
    method: str
    path: str
    range: str | None
    authorized: bool
    sent: int = 0
    """Bytes of the body that went out."""


@dataclass
class Hub:
    """A running hub. `requests` holds every request so far."""

    folder: Path
    port: int = 0
    faults: Faults = field(default_factory=Faults)
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Hub:
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def gets(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET"]


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def log_message(self, *_: object) -> None: ...

        def answer(self, *, body: bool) -> None:
            asked = Request(
                self.command, self.path, self.headers["Range"], "Authorization" in self.headers
            )
            hub.requests.append(asked)
            path = self.path.strip("/").removeprefix("content/")
            repo, _, rest = path.partition("/resolve/")
            revision, _, name = rest.split("?")[0].partition("/")
            file = hub.folder / repo / name
            if hub.faults.status or not name or ".." in name or not file.is_file():
                self.refuse(hub.faults.status or 404)
                return
            content = file.read_bytes()
            begin = 0
            if asked.range and not hub.faults.ignore_range:
                begin = int(asked.range.removeprefix("bytes=").partition("-")[0])
            if begin >= len(content) and begin:
                self.refuse(416)
                return
            elsewhere = self.path.startswith("/content/")
            redirect = hub.faults.redirect and not elsewhere
            self.send_response(302 if redirect else 206 if begin else 200)
            commit = revision if hub.faults.commit is None else hub.faults.commit
            digest = hub.faults.announce or hashlib.sha256(content).hexdigest()
            if redirect:
                port = hub.server.server_address[1]
                self.send_header("Location", f"http://localhost:{port}/content/{path}?signed=1")
            self.send_header("Content-Length", "0" if redirect else str(len(content) - begin))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"of the storage"' if elsewhere else f'"{digest}"')
            if not elsewhere:
                self.send_header("X-Linked-Etag", f'"{digest}"')
                self.send_header("X-Linked-Size", str(len(content)))
            if commit and not elsewhere:
                self.send_header("X-Repo-Commit", commit)
            if begin and not redirect:
                last = len(content) - 1
                self.send_header("Content-Range", f"bytes {begin}-{last}/{len(content)}")
            self.end_headers()
            if body and not redirect:
                self.send(asked, content, begin)

        def send(self, asked: Request, content: bytes, begin: int) -> None:
            faults = hub.faults
            if faults.wrong_content:
                content = content[:-1] + bytes([content[-1] ^ 1])
            end = len(content)
            if faults.cut_at is not None and faults.cuts > 0 and begin < faults.cut_at:
                faults.cuts -= 1
                end = faults.cut_at
                self.close_connection = True
            with contextlib.suppress(ConnectionError):  # whoever asked has gone
                self.wfile.write(content[begin:end])
            asked.sent = end - begin

        def refuse(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--cut-at", type=int, help="break the first transfer after so many bytes")
    parser.add_argument("--status", type=int, help="answer everything with this status")
    given = parser.parse_args()
    faults = Faults(status=given.status, cut_at=given.cut_at)
    with Hub(given.folder, given.port, faults) as hub:
        print(f"HF_ENDPOINT={hub.endpoint}  (Ctrl-C ends)")
        with contextlib.suppress(KeyboardInterrupt):
            hub.thread.join()


if __name__ == "__main__":
    main()
