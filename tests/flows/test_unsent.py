"""What is logged of a webhook that does not take a notification."""

from __future__ import annotations

import logging

import httpx
import pytest

from flows.unsent import LOGGER, Unsent

SECRET = "https://hooks.example.com/services/T0/B0/secret"
REQUEST = httpx.Request("POST", SECRET)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            httpx.HTTPStatusError(
                f"404 for url {SECRET}", request=REQUEST, response=httpx.Response(404)
            ),
            "its address answers 404",
        ),
        (httpx.ConnectError(f"no way to {SECRET}", request=REQUEST), "ConnectError"),
        (httpx.InvalidURL(SECRET), "InvalidURL"),
    ],
)
def test_the_address_is_not_logged(
    caplog: pytest.LogCaptureFixture, error: Exception, told: str
) -> None:
    logger, unsent = logging.getLogger(LOGGER), Unsent()
    logger.addFilter(unsent)
    try:
        with caplog.at_level(logging.ERROR):
            logger.error("Failed in consume_loop", exc_info=error)
            logger.error("Failed in consume_loop", exc_info=ValueError("another fault"))
    finally:
        logger.removeFilter(unsent)
    assert f"A notification could not be sent: {told}\n" in caplog.text
    assert "ValueError: another fault" in caplog.text
    assert "secret" not in caplog.text
