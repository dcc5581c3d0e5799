"""A chat as one entry: the last answer is the response, all that comes before it the prompt.

Messages have a role and content (`role`, `content`) or are ShareGPT's (`from`, `value`). Turns of
one role in a row are one turn, joined by a blank line; a system message without words is none. A
chat that ends without an answer, a tool's message, a role that nobody knows: refused, never
guessed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from twolevers.data.prompt import Turn
from twolevers.data.values import Fault, RepeatedKey, absent, listed, repeated, type_name, whole
from twolevers.errors import did_you_mean

ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bot", "bing", "bard", "model"), "assistant"),
}
"""A role as it is written, and what it means here."""

_TOOLS = {"tool", "tools", "function", "function_call", "tool_call", "observation", "ipython"}
_TEXTS = {None, "text", "input_text", "output_text"}
"""Kinds of a part that is text."""
_SPEAKERS = re.compile(r"(?:^|\n\n)(Human|Assistant):")
_WRITTEN = re.compile(r"""\s*\[?\s*\{\s*["'](?:role|from|content|value)["']\s*:""")
"""How the JSON text of messages begins; Python's own way of writing them is near enough to tell."""
_REMOVE = "remove the row"


def read_turns(value: object) -> tuple[list[Turn], list[Fault]]:
    """The turns of a chat that ends with a question and its answer, or all that is wrong with it.

    Args:
        value: a list of messages, or the JSON text of one, as a CSV's cell has it.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [], [(value, "is text, but no JSON list of messages", "write the list as JSON")]
    if not isinstance(value, list):
        what = f"is {type_name(value)}, not a list of messages"
        return [], [(value, what, "write [{'role': 'user', 'content': …}, …]")]
    turns: list[Turn] = []
    faults: list[Fault] = []
    for number, message in enumerate(value, start=1):
        found = _turn(message)
        if isinstance(found, tuple):
            role, text = found
            if not text:
                continue
            if turns and turns[-1][0] == role:
                turns[-1] = (role, f"{turns[-1][1]}\n\n{text}")
            else:
                turns.append((role, text))
        else:
            faults += [(what, f"message {number} {why}", out) for what, why, out in found]
    return turns, faults or _order_faults(turns) or _weight_faults(value[-1])


def conversation(prompt: object, answer: object) -> object:
    """A prompt and its answer as one list of messages; None where both are plain text.

    Either may be messages (one, a list, the JSON text of one) or text as Anthropic's HH-RLHF has
    it: `\\n\\nHuman: …\\n\\nAssistant: …`. An answer that holds what the user said is the whole
    conversation.
    """
    asked, answered = _messages(prompt), _messages(answer)
    for found in (answered, asked):
        if isinstance(found, str):
            return found  # a list that is no JSON: `read_turns` says so
    if asked is None and answered is None:
        return None
    if answered and any(_role(message)[0] != "assistant" for message in answered):
        return answered
    if asked is None:
        asked = [] if absent(prompt) else [{"role": "user", "content": prompt}]
    return [*asked, *(answered or [{"role": "assistant", "content": answer}])]


def _messages(value: Any) -> list[Any] | str | None:
    """A value that is messages, as a list of them; None for whatever else."""
    if isinstance(value, str):
        if not _WRITTEN.match(value):
            return _spoken(value)
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    if isinstance(value, dict) and ("role" in value or "from" in value):
        return [value]
    return value if isinstance(value, list) and value and isinstance(value[0], dict) else None


def _spoken(text: str) -> list[Any] | None:
    before, *parts = _SPEAKERS.split(text)
    if before.strip() or not parts:
        return None
    messages = [
        {"role": role.lower(), "content": said.strip()}
        for role, said in zip(parts[::2], parts[1::2], strict=True)
    ]
    # A prompt ends with the mark that its answer follows.
    return messages if messages[-1]["content"] or len(messages) == 1 else messages[:-1]


def _turn(message: object) -> Turn | list[Fault]:
    if isinstance(message, RepeatedKey):
        return [repeated(message)]
    if not isinstance(message, dict):
        what = f"is {type_name(message)}, not an object"
        return [(message, what, "write {'role': …, 'content': …}")]
    role, faults = _role(message)
    text, more = _text(message)
    faults += more
    if role == "system" and not (more or text.strip()):
        return role, ""
    if not (faults or text.strip()):  # one of other keys has neither: its role says it
        faults.append((text or None, "is empty", "fill in its content, or remove it"))
    return faults or (role, whole(text))


def _role(message: object) -> tuple[str, list[Fault]]:
    if not isinstance(message, dict):
        return "", []
    written = message.get("role") or message.get("from")
    if isinstance(written, str) and written.strip().lower() in ROLES:
        return ROLES[written.strip().lower()], []
    if written is None or written == "":
        what = f"has no role; its keys are {listed(message)}"
        return "", [(None, what, "fill in role, or from")]
    if str(written).lower() in _TOOLS:
        what = "is a tool's, which no prompt style has a place for"
        return "", [(written, what, _REMOVE)]
    near = did_you_mean(str(written), ROLES)
    return "", [(written, f"has a role that is not known{near}", f"use one of {', '.join(ROLES)}")]


def _text(message: Mapping[str, Any]) -> tuple[str, list[Fault]]:
    content = message.get("content")
    if absent(content):
        content = message.get("value")
    if message.get("tool_calls") or message.get("function_call"):
        return "", [(None, "calls a tool, which no prompt style has a place for", _REMOVE)]
    if isinstance(content, list):
        others = [part for part in content if _part(part) is None]
        if others:
            return "", [(others[0], "holds a part that is not text", "leave that part out")]
        content = "\n".join(text for part in content if (text := _part(part)))
    if absent(content):
        return "", []
    if not isinstance(content, str):
        what = f"has content that is {type_name(content)}, not text"
        return "", [(content, what, "give it as text, in quotation marks")]
    return content, []


def _part(part: object) -> str | None:
    """The text of one part of a list as OpenAI's format has it; None where it is none."""
    if isinstance(part, dict) and part.get("type") in _TEXTS:
        part = part.get("text")
    return part if isinstance(part, str) else None


def _weight_faults(last: Mapping[str, Any]) -> list[Fault]:
    """OpenAI's format says by a weight of 0 that a message is not to be learned."""
    weight = last.get("weight")
    if weight is None or weight != 0:
        return []
    return [(weight, "ends with an answer of weight 0, which is not to be learned", _REMOVE)]


def _order_faults(turns: list[Turn]) -> list[Fault]:
    if not turns:
        return [(None, "has no messages", _REMOVE)]
    if any(role == "system" for role, _ in turns[1:]):
        return [
            (None, "has a system message behind its beginning", "put it first, or leave it out")
        ]
    last, text = turns[-1]
    if last != "assistant":
        what = f"ends with a {last} message, not with an answer"
        return [(text, what, "remove what follows the last answer, or the row")]
    if len(turns) < 2 or turns[-2][0] != "user":
        return [(None, "has no user message before its answer", _REMOVE)]
    return []
