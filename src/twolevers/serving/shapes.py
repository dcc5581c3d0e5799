"""What the endpoint gives: OpenAI's answers, chunks and errors as plain objects."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from twolevers.serving.engine import Piece, Reason


class ApiError(Exception):
    """A refusal as a client sees it.

    Args:
        kind: OpenAI's `type`.
        retry: whether asking again may help; seconds where it is known when.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        *,
        code: str | None = None,
        param: str | None = None,
        retry: bool | int = False,
    ) -> None:
        message = message.encode("utf-8", "replace").decode()  # it may quote half a character
        super().__init__(message)
        self.status, self.retry = status, retry
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}

    @property
    def headers(self) -> dict[str, str]:
        """`x-should-retry` is what OpenAI's client goes by."""
        headers = {"x-should-retry": str(bool(self.retry)).lower()}
        if self.retry:
            headers["retry-after"] = str(int(self.retry))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.status == 408:  # what still comes is no request of its own
            headers["connection"] = "close"
        return headers


def cut_error(reason: Reason, message: str) -> ApiError:
    """For an answer that ended before it was complete."""
    if reason == "timeout":
        return ApiError(504, message, "timeout_error", code="timeout")
    if reason == "closing":
        return closing_error(message)
    if reason == "cancelled":
        return gone_error(message)
    return ApiError(500, message, "server_error", code="failed")


def gone_error(message: str = "the client has gone") -> ApiError:
    return ApiError(499, message, code="cancelled")


def late_error(message: str) -> ApiError:
    return ApiError(408, message, "timeout_error", code="timeout")


def full_error(message: str) -> ApiError:
    return ApiError(429, message, "rate_limit_error", code="rate_limit_exceeded", retry=1)


def closing_error(message: str) -> ApiError:
    return ApiError(503, message, "server_error", code="closing", retry=5)


@dataclass(frozen=True)
class Shape:
    """The objects of one answer, of a completion or of a chat."""

    model: str
    prompt_tokens: int
    chat: bool
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, text: str, last: Piece) -> dict[str, Any]:
        """The answer in one object."""
        if self.chat:
            said: dict[str, Any] = {
                "message": {"role": "assistant", "content": text, "refusal": None}
            }
        else:
            said = {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": last.reason}
        return {**self._head(""), "choices": [choice], "usage": self.usage(last)}

    def chunk(self, text: str, reason: Reason | None = None, *, first: bool = False) -> Any:
        """A piece of a streamed answer."""
        said: dict[str, Any] = {"text": text}
        if self.chat:
            role = {"role": "assistant"} if first else {}
            said = {"delta": role | ({"content": text} if text or first else {})}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
        return {**self._head(".chunk"), "choices": [choice]}

    def usage_chunk(self, last: Piece) -> dict[str, Any]:
        """The last of a streamed answer where the client asked for it."""
        return {**self._head(".chunk"), "choices": [], "usage": self.usage(last)}

    def usage(self, last: Piece) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": last.new_tokens,
            "total_tokens": self.prompt_tokens + last.new_tokens,
        }

    def _head(self, suffix: str) -> dict[str, Any]:
        kind = f"chat.completion{suffix}" if self.chat else "text_completion"
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {
            "id": f"{prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }
