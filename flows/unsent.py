"""What Prefect's server logs of a notification that could not be sent: one line, no address."""

from __future__ import annotations

import logging

LOGGER = "prefect.server.utilities.messaging.memory"


class Unsent(logging.Filter):
    """In place of httpx's error and its traceback, which name the address: whoever has a webhook's
    address can write there. It lies in the block and nowhere else."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record, that one changed."""
        import httpx

        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
            what = type(error).__name__
            if isinstance(error, httpx.HTTPStatusError):
                what = f"its address answers {error.response.status_code}"
            record.msg, record.args = "A notification could not be sent: %s", (what,)
            record.exc_info = record.exc_text = None
        return True


def hide_addresses() -> None:
    """For the process of a Prefect server."""
    logging.getLogger(LOGGER).addFilter(Unsent())
