"""A judge on loopback that speaks Ollama's and OpenAI's protocol, with faults on demand.

By hand: `python tests/judge_server.py --port 11434`, then `twolevers judge`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "llama3:latest"
DIGEST = "365c0bd3c000a25d28ddbf732fe1c6add414de7275464c4e4d1c3b5fcb5d8ad1"


@dataclass(frozen=True)
class Fault:
    """What happens to one question instead of an answer."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"error": "out of order"}'
    text: str | None = None
    """Sent as a success, instead of the answer."""
    cut: int | None = None
    """Send only so many bytes of the answer, as if they were all of it."""
    drop: bool = False
    """Promise all of it, send half, and close the connection."""
    seconds: float = 0.0
    """Answer as always, but after so long."""
    reset: bool = False
    """Send nothing and break the connection."""


def part(text: str, tag: str) -> str:
    """What stands between two tags of a question."""
    found = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return found[1] if found else ""


def same_or_not(messages: list[dict[str, str]]) -> str:
    """100 for an answer that is its reference, 20 for any other."""
    text = messages[0]["content"]
    right = part(text, "response") == part(text, "reference")
    return f"Score: {100 if right else 20}\nReason: {'the same' if right else 'another'}"


class JudgeServer:
    """Counts what it is asked; `faults` meet the next questions, one each."""

    def __init__(
        self,
        reply: Callable[[list[dict[str, str]]], str] = same_or_not,
        *,
        port: int = 0,
        seconds: float = 0.0,
        key: str = "",
        usage: bool = True,
        root: str = "/v1",
    ) -> None:
        """`root`: where OpenAI's protocol lies."""
        self.reply, self.seconds, self.key, self.usage = reply, seconds, key, usage
        self.root = root
        self.faults: deque[Fault] = deque()
        self.always: Fault | None = None
        self.questions: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self.server.daemon_threads = True
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def texts(self) -> list[str]:
        """The last message of every question."""
        return [question["messages"][-1]["content"] for question in self.questions]

    def __enter__(self) -> JudgeServer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def _handler(judge: JudgeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for the one before

        def do_GET(self) -> None:
            if self.path == "/api/tags":
                self.send(200, {"models": [{"name": MODEL, "digest": DIGEST}]})
            elif self.path != f"{judge.root}/models":
                self.send(404, {"error": "page not found"})
            elif self.allowed():
                self.send(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path not in ("/api/chat", f"{judge.root}/chat/completions"):
                self.send(404, {"error": "page not found"})
                return
            if not self.allowed():
                return
            with judge.lock:
                judge.questions.append(asked)
                judge.at_once += 1
                judge.most_at_once = max(judge.most_at_once, judge.at_once)
                fault = judge.faults.popleft() if judge.faults else judge.always
            try:
                self.answer(asked, fault)
            finally:
                with judge.lock:
                    judge.at_once -= 1

        def answer(self, asked: dict[str, Any], fault: Fault | None) -> None:
            time.sleep(fault.seconds if fault and fault.seconds else judge.seconds)
            if fault and fault.reset:
                self.break_off()
            elif asked["model"] not in (MODEL, "llama3"):
                message = f"model '{asked['model']}' not found"
                ollama = self.path == "/api/chat"
                self.send(404, {"error": message if ollama else {"message": message}})
            elif fault and fault.status != 200:
                self.send_text(fault.status, fault.body, fault.headers)
            elif fault and fault.text is not None:
                self.send_text(200, fault.text, fault.headers)
            else:
                body = json.dumps(self.whole(judge.reply(asked["messages"])))
                if fault and fault.cut is not None:
                    body = body[: fault.cut]
                self.send_text(200, body, {}, drop=bool(fault and fault.drop))

        def break_off(self) -> None:
            now = struct.pack("ii", 1, 0)  # on, waiting 0 s: closing sends a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
            self.wfile = io.BytesIO()
            self.close_connection = True
            self.rfile.close()
            self.connection.close()

        def whole(self, text: str) -> dict[str, Any]:
            if self.path == "/api/chat":
                message = {"role": "assistant", "content": text}
                counted = {"prompt_eval_count": 100, "eval_count": 10} if judge.usage else {}
                return {"model": MODEL, "message": message, "done": True} | counted
            choice = {"index": 0, "message": {"role": "assistant", "content": text}}
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            return {
                "id": "1", "object": "chat.completion", "created": 1, "model": MODEL,
                "choices": [choice | {"finish_reason": "stop"}],
            } | ({"usage": usage} if judge.usage else {})  # fmt: skip

        def allowed(self) -> bool:
            given = self.headers.get("Authorization", "").removeprefix("Bearer ")
            judge.keys.add(given)
            if judge.key and given != judge.key:
                self.send(401, {"error": {"message": "invalid key", "code": "invalid_api_key"}})
                self.close_connection = True
                return False
            return True

        def send(self, status: int, body: dict[str, Any]) -> None:
            self.send_text(status, json.dumps(body), {})

        def send_text(
            self, status: int, body: str, headers: dict[str, str], *, drop: bool = False
        ) -> None:
            content = body.encode()
            with contextlib.suppress(ConnectionError):  # whoever asked has gone
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if drop else content)
            self.close_connection = self.close_connection or drop

        def log_message(self, *_: object) -> None: ...

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=11434)
    parser.add_argument("--seconds", type=float, default=0.0, help="time that an answer takes")
    given = parser.parse_args()
    with JudgeServer(port=given.port, seconds=given.seconds) as judge:
        print(f"{judge.url}  (Ctrl-C ends it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            judge.thread.join()


if __name__ == "__main__":
    main()
