"""What may be wrong with a judge, by what its server answers.

MayPass      nothing came, or what came was cut off or says `later`: asking again may help
Refused      this question cannot be answered; others may
InputError   no question can: no such model, no key, no server there
"""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping

from twolevers.errors import InputError, Problem
from twolevers.evaluation.judge_options import KEY, public
from twolevers.evaluation.judge_replies import excerpt

LOADING_WAIT = 15.0
"""Seconds between two attempts while a server says that it loads its model."""


class MayPass(Exception):  # noqa: N818 - no error yet
    """Asking again may help, after `retry_after` seconds where the server says so."""

    def __init__(self, what: str, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.retry_after = retry_after


class Refused(Exception):  # noqa: N818
    """The judge does not take this question."""


def check(status: int, text: str, headers: Mapping[str, str], url: str, model: str) -> None:
    """Nothing for a success, else the error that a status means.

    Raises:
        MayPass, Refused, InputError: as on top.
    """
    if status < 300:
        return
    answer = excerpt(text)
    if status < 400:
        to = excerpt(headers.get("location", "elsewhere"))
        raise InputError(
            Problem("--judge-url", public(url), f"sends on to {to}", "give that server's address")
        )
    if status in (401, 403):
        raise InputError(
            Problem(
                "the judge's key",
                None,
                f"{public(url)} does not take it ({status}: {answer})",
                f"set {KEY} in the environment to a key of that server",
            )
        )
    if status in (404, 405):
        raise InputError(
            Problem(
                "--judge-model",
                model,
                f"{public(url)} answers {status}: {answer}",
                "name a model that it serves, or correct --judge-url and --judge",
            )
        )
    if status == 402 or (status == 429 and "insufficient_quota" in text):
        raise InputError(
            Problem(
                "the judge", model, f"has no credit left: {answer}", "add some, or name another"
            )
        )
    if status in (408, 409, 425, 429) or status >= 500:
        loading = LOADING_WAIT if status == 503 and "loading" in text.lower() else None
        wait = _seconds(headers.get("retry-after"))
        until = f" (and asks to wait {wait:,.0f} s)" if wait else ""
        raise MayPass(f"answers {status}: {answer}{until}", loading if wait is None else wait)
    raise Refused(f"{public(url)} answers {status}: {answer}")


def said(error: BaseException) -> str:
    """What went wrong with a connection. The client says nothing where the other end hung up."""
    return str(error) or "it closed the connection"


def no_server(url: str, error: BaseException, start: str) -> InputError:
    """What is said where nobody listens, or nobody who can be trusted."""
    if "SSL" in str(error):
        return InputError(
            Problem(
                "--judge-url",
                public(url),
                f"no safe connection ({error})",
                "name its certificate in SSL_CERT_FILE, or give http:// where it speaks that",
            )
        )
    return InputError(
        Problem(
            "--judge-url",
            public(url),
            f"no server answers there ({str(error) or 'no connection in time'})",
            f"start it ({start}) or name another",
        )
    )


def no_model(model: str, url: str, there: Mapping[str, object], way_out: str) -> InputError:
    """What is said where the server lacks the model."""
    known = excerpt(", ".join(sorted(there))) or "none"
    return InputError(
        Problem("--judge-model", model, f"{public(url)} does not have it (it has {known})", way_out)
    )


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header, which is seconds or a date."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None
