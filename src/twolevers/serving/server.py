"""Running the endpoint until a signal comes, and ending it so that every client is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from twolevers.serving.engine import Engine

SECONDS_TO_SEND = 5
"""What a slow client is given to take the rest of its answer, once everything has been said, or to
send the rest of its request. Then it is hung up on."""


class Server(uvicorn.Server):
    """uvicorn, with an end in two parts.

    The first signal closes the engine: new requests get 503, running answers have `grace` seconds
    to end. When all clients are told, the server ends. A second signal cuts what still runs.

    Args:
        port: 0 takes a free one.
        on_start: called with the port, once it listens.
    """

    def __init__(
        self,
        app: FastAPI,
        engine: Engine,
        *,
        host: str,
        port: int,
        grace: float,
        on_start: Callable[[int], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=2 * SECONDS_TO_SEND,  # does not come to that
                lifespan="off",
                server_header=False,
            )
        )
        self._engine, self._grace, self._on_start = engine, grace, on_start

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: Any = None) -> None:
        asyncio.get_running_loop().call_later(SECONDS_TO_SEND, self._hang_up)
        await super().shutdown(sockets)

    def _hang_up(self) -> None:
        """As if the clients had gone, which every request knows to end by. uvicorn would cancel the
        requests, with a traceback for each."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it, from any thread; called again, at once."""
        grace = 0.0 if self._engine.is_closing else self._grace
        threading.Thread(target=self._close, args=(grace,), daemon=True).start()

    def _close(self, grace: float) -> None:
        self._engine.close(grace)
        self.should_exit = True
