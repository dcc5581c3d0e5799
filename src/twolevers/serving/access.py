"""Who may ask the endpoint: who sends the key; where there is none, who calls this machine by a
loopback name, so that no web page gets in by a name of its own (DNS rebinding)."""

from __future__ import annotations

import hmac

from fastapi import Request

from twolevers.data.catalog import is_loopback
from twolevers.serving.shapes import ApiError


def check_access(http: Request, key: str | None) -> None:
    """Nothing where the client may ask.

    Args:
        key: what has to come as `Authorization: Bearer KEY`. None: only loopback is answered.

    Raises:
        ApiError: it may not.
    """
    if key is None:
        _check_host(http)
    else:
        _check_key(http, key)


def _check_key(http: Request, key: str) -> None:
    # A header's bytes come as Latin-1: any byte is one character.
    scheme, _, given = http.headers.get("authorization", "").partition(" ")
    right = hmac.compare_digest(given.strip().encode("latin-1"), key.encode("utf-8"))
    if scheme.lower() != "bearer" or not right:
        message = "a key is required and this is not it; send Authorization: Bearer KEY"
        raise ApiError(401, message, "authentication_error", code="invalid_api_key")


def _check_host(http: Request) -> None:
    host = http.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not is_loopback(name.removeprefix("[").removesuffix("]").lower()):
        message = f"{host!r} is no name of this machine's loopback; ask http://127.0.0.1 instead"
        raise ApiError(403, message, "permission_error")
