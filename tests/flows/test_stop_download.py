"""Ctrl-C during a download ends the command at once, however slow the server is."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from command import Command

asked = threading.Event()
closing = threading.Event()


class Dripping(BaseHTTPRequestHandler):
    """Promises ten million bytes and sends one at a time."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "10000000")
        self.end_headers()
        asked.set()
        try:
            while not closing.is_set():
                self.wfile.write(b"[")
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def slow_address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/data.json"
    closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_ctrl_c_does_not_wait_for_a_download(command: Command, slow_address: str) -> None:
    process = command.start("fine-tune", "--dataset", slow_address)
    assert asked.wait(120)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=40)  # the whole file would take days
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert command.statuses() == ["KILLED"]
