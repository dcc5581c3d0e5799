"""A request's body, read and checked."""

from __future__ import annotations

import asyncio
import json
from typing import TypeVar

from fastapi import Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from twolevers.serving.messages import Asked
from twolevers.serving.shapes import ApiError, gone_error, late_error

LONGEST_BODY = 4 * 2**20
"""Bytes of a request."""
LONGEST_READ = 64 * LONGEST_BODY
"""Bytes of a longer one that are read, and dropped, so that its sender gets to hear of it."""
SECONDS_TO_ARRIVE = 60
"""What a client is given to send its request."""
MOST_FAULTS = 10
"""Faults of one request that are named."""

SAID = {"extra_forbidden": "no such option", "model_type": "input should be an object"}
"""Instead of pydantic's words, which speak of Python."""

A = TypeVar("A", bound=Asked)


async def read_asked(http: Request, kind: type[A]) -> A:
    """The request's body, checked.

    Raises:
        ApiError: too long or too slow, no JSON, or not what this takes; names the faults.
    """
    declared = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared != "application/json":
        raise ApiError(400, "the body is not declared as JSON; send Content-Type: application/json")
    try:
        async with asyncio.timeout(SECONDS_TO_ARRIVE):
            body = await _read(http)
    except TimeoutError:
        raise late_error(f"the request was not whole within {SECONDS_TO_ARRIVE} s") from None
    try:
        return check_asked(json.loads(body), kind)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is no JSON: {error}") from error


def check_asked(value: object, kind: type[A]) -> A:
    """A request, checked.

    Raises:
        ApiError: not what this takes; names the faults.
        InputError: it asks for what cannot be had.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _refusal(error) from error


async def _read(http: Request) -> bytes:
    body, size = bytearray(), 0
    try:
        async for chunk in http.stream():
            size += len(chunk)
            if size <= LONGEST_BODY:
                body += chunk
            if size > LONGEST_READ:
                break
    except ClientDisconnect:
        raise gone_error() from None
    if size > LONGEST_BODY:
        raise ApiError(413, f"the request is longer than {LONGEST_BODY:,} bytes; shorten it")
    return bytes(body)


def _refusal(error: ValidationError) -> ApiError:
    """The faults by place; of a choice of types, what each of them would have taken."""
    if error.error_count() > 1000:  # each costs a record of its own
        return ApiError(
            400, f"the request has {error.error_count():,} faults; it is no request that this takes"
        )
    faults: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_input=False):
        depth = 1 if fault["loc"][:1] in (("prompt",), ("stop",)) else 3  # behind it: which type
        place = ".".join(str(part) for part in fault["loc"][:depth]) or "body"
        what = SAID.get(fault["type"]) or fault["msg"].lower().removeprefix("value error, ")
        said = faults.setdefault(place, [])
        if what not in said and len(said) < 2:
            said.append(what)
    named = [f"{place}: {' or '.join(what)}" for place, what in faults.items()][:MOST_FAULTS]
    if len(faults) > MOST_FAULTS:
        named.append(f"and {len(faults) - MOST_FAULTS} more")
    return ApiError(400, "; ".join(named), param=next(iter(faults)))
