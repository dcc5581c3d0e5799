"""What servers send: the reply in it, whole or streamed, and the errors that come as successes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twolevers.data.values import whole
from twolevers.errors import InputError, Problem
from twolevers.evaluation.judge_options import KEY, OPENAI_KEY

Messages = Sequence[Mapping[str, str]]
"""`role` and `content` of each, the newest last."""
SHOWN = 300
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Reply:
    """What a judge said, and the tokens that it took."""

    text: str
    prompt_tokens: int
    reply_tokens: int


def read_object(text: str, address: str) -> dict[str, Any]:
    """The object in a body. A reply that was streamed although nobody asked for that, as lines of
    JSON (Ollama) or server-sent events (OpenAI), is put together.

    Args:
        address: of the server, as it may be shown.

    Raises:
        ValueError: no whole object; says what instead.
        InputError: a page for a browser.
    """
    text = text.removeprefix("\ufeff")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        if text.lstrip()[:1] == "<":
            raise InputError(
                Problem(
                    "--judge-url",
                    address,
                    f"sends a page for a browser: {excerpt(text)}",
                    "give the address of its API",
                )
            ) from None
        body = _joined(text)
    if not isinstance(body, dict):
        raise ValueError(f"sends no whole JSON object: {excerpt(text)}")
    return body


def _joined(text: str) -> dict[str, Any] | None:
    lines = (line.removeprefix("data:").strip() for line in text.split("\n"))
    try:
        parts = [json.loads(line) for line in lines if line.startswith("{")]
    except (ValueError, RecursionError):
        return None
    if not parts:
        return None
    if failed := next((part for part in parts if "error" in part), None):
        return dict(failed)
    if len(parts) == 1 and "delta" not in str(parts[0].get("choices")):
        return dict(parts[0])  # whole, behind signs of life
    said = "".join(message_text(part) or "" for part in parts)
    if parts[-1].get("done") is True:
        return {**parts[-1], "message": {"content": said}}
    ended = "[DONE]" in text.rstrip()[-20:] or any(_finished(part) for part in parts)
    usage = next((part["usage"] for part in reversed(parts) if part.get("usage")), None)
    return {"choices": [{"message": {"content": said}}], "usage": usage} if ended else None


def _finished(part: Mapping[str, Any]) -> bool:
    choices = part.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return isinstance(first, dict) and bool(first.get("finish_reason"))


def message_text(body: Mapping[str, Any]) -> str | None:
    """What the message in a body says, thoughts that stand apart left out; None without one."""
    holder: Any = body
    if "choices" in body:
        choices = body["choices"]
        holder = choices[0] if isinstance(choices, list) and choices else {}
    message = None
    if isinstance(holder, dict):
        message = holder.get("message", holder.get("delta"))
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_part_text(part) for part in content)
    elif isinstance(content, (dict, int, float)):
        content = json.dumps(content)
    return whole(content) if isinstance(content, str) else ""


def _part_text(part: Any) -> str:
    if isinstance(part, dict):
        part = "" if part.get("type") in ("thinking", "reasoning") else part.get("text")
    if isinstance(part, dict):
        part = part.get("value")
    return part if isinstance(part, str) else ""


def error_in(body: Mapping[str, Any]) -> tuple[int, str] | None:
    """Status and text of an error that came as a success; the status 200 where it has none."""
    error = body.get("error")
    if not error or message_text(body) is not None:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    said = str(error.get("message", error) if isinstance(error, dict) else error)
    if re.fullmatch("[45][0-9]{2}", str(code)):
        return int(str(code)), said
    return (404 if "not found" in said else 200), said


def reply_of(text: str, messages: Messages, prompt: object, reply: object) -> Reply:
    """With the tokens that the server counted; where it did not, one for three bytes, which is
    rather too many than too few."""
    sent = sum(len(message["content"].encode()) for message in messages)
    counts = [
        counted if isinstance(counted, int) and counted >= 0 else -(-size // 3)
        for counted, size in ((prompt, sent), (reply, len(text.encode())))
    ]
    return Reply(text, *counts)


def excerpt(text: str) -> str:
    """The beginning of what a server said, as one line that may be shown in a terminal, without
    the key that it may repeat."""
    for name in (KEY, OPENAI_KEY):
        if key := os.environ.get(name, "").strip():
            text = text.replace(key, f"({name})")
    if text.lstrip()[:1] == "<":
        text = _MARKUP.sub(" ", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 20 * SHOWN]).split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
