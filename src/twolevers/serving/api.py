"""The HTTP endpoint: OpenAI's protocol for one model, whole or streamed, errors included.

GET  /health                  how it is, without a key
GET  /v1/models               the model served
POST /v1/completions          a prompt as it is
POST /v1/chat/completions     messages, put into the model's prompt style: `messages.py`
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Depends, FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from twolevers.errors import InputError, first_line
from twolevers.serving.access import check_access
from twolevers.serving.engine import ClosingError, Engine, FullError, Piece, Request
from twolevers.serving.messages import Asked, ChatAsked, CompletionAsked
from twolevers.serving.reading import read_asked
from twolevers.serving.served import ServedModel
from twolevers.serving.shapes import (
    ApiError,
    Shape,
    closing_error,
    cut_error,
    full_error,
    gone_error,
)

PATHS = "GET /v1/models, POST /v1/completions and POST /v1/chat/completions"

T = TypeVar("T")


def make_app(served: ServedModel, key: str | None = None) -> FastAPI:
    """The endpoint.

    Args:
        key: what clients have to send as `Authorization: Bearer KEY`. None: only who calls this
            machine by a loopback name is answered, so that no web page gets in by a name of
            its own (DNS rebinding).
    """
    app = FastAPI(title="twolevers", openapi_url=None, docs_url=None, redoc_url=None)
    started = int(time.time())

    async def may_ask(http: HttpRequest) -> None:
        check_access(http, key)

    @app.get("/health")
    async def health() -> JSONResponse:
        engine = served.engine
        running, waiting = engine.load
        state = {
            "status": "closing" if engine.is_closing else "ok",
            "model": served.name,
            "running": running,
            "waiting": waiting,
            "max_batch": engine.max_batch,
            "max_waiting": engine.max_waiting,
        }
        return JSONResponse(state, 503 if engine.is_closing else 200)

    described = {"id": served.name, "object": "model", "created": started, "owned_by": "twolevers"}

    @app.get("/v1/models", dependencies=[Depends(may_ask)])
    async def models() -> JSONResponse:
        return JSONResponse({"object": "list", "data": [described]})

    @app.get("/v1/models/{name}", dependencies=[Depends(may_ask)])
    async def model(name: str) -> JSONResponse:
        _check_model(name, served.name)
        return JSONResponse(described)

    @app.post("/v1/completions", dependencies=[Depends(may_ask)])
    async def completions(http: HttpRequest) -> Response:
        asked = await read_asked(http, CompletionAsked)
        return await _respond(http, served, asked, asked.prompt, chat=False)

    @app.post("/v1/chat/completions", dependencies=[Depends(may_ask)])
    async def chat(http: HttpRequest) -> Response:
        asked = await read_asked(http, ChatAsked)
        return await _respond(http, served, asked, asked.prompt(served.style), chat=True)

    @app.exception_handler(ApiError)
    async def refused(_http: HttpRequest, error: ApiError) -> JSONResponse:
        return JSONResponse(error.body, error.status, error.headers)

    @app.exception_handler(InputError)
    async def bad_input(_http: HttpRequest, error: InputError) -> JSONResponse:
        param = error.problems[0].where.partition(":")[0]
        refusal = ApiError(400, str(error), param=param)
        return JSONResponse(refusal.body, 400, refusal.headers)

    @app.exception_handler(HTTPException)
    async def no_such_page(http: HttpRequest, error: HTTPException) -> JSONResponse:
        message = f"{http.method} {http.url.path}: {error.detail}; there are {PATHS}"
        refusal = ApiError(error.status_code, message)
        return JSONResponse(refusal.body, error.status_code, {**(error.headers or {})})

    @app.exception_handler(Exception)
    async def fault(_http: HttpRequest, error: Exception) -> JSONResponse:
        refusal = ApiError(500, first_line(error), "server_error", code="failed")
        return JSONResponse(refusal.body, 500, refusal.headers)

    return app


class Answer:
    """The pieces of an answer, handed from the engine's thread to this event loop."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Piece] = asyncio.Queue()
        self._ticket = engine.submit(request, self._deliver)

    def _deliver(self, piece: Piece) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)

    async def next(self) -> Piece:
        """The next piece.

        Raises:
            ApiError: the answer was cut.
        """
        piece = await self._pieces.get()
        if piece.reason not in (None, "stop", "length"):
            raise cut_error(piece.reason, piece.message)
        return piece

    async def whole(self) -> tuple[str, Piece]:
        """All of the text, and the last piece."""
        texts = []
        while True:
            piece = await self.next()
            texts.append(piece.text)
            if piece.reason is not None:
                return "".join(texts), piece

    def cancel(self) -> None:
        self._ticket.cancel()


class _Events(StreamingResponse):
    """Server-sent events of an answer, which is cancelled when the client goes."""

    def __init__(self, answer: Answer, first: Piece, shape: Shape, asked: Asked) -> None:
        super().__init__(
            _events(answer, first, shape, asked.include_usage),
            media_type="text/event-stream",
            headers={"cache-control": "no-cache"},
        )
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answer.cancel()


async def _events(
    answer: Answer, piece: Piece, shape: Shape, include_usage: bool
) -> AsyncIterator[bytes]:
    if shape.chat:
        yield _event(shape.chunk("", first=True))
    try:
        while piece.reason is None:
            yield _event(shape.chunk(piece.text))
            piece = await answer.next()
    except ApiError as error:  # too late for a status
        yield _event(error.body)
        return
    if piece.text:
        yield _event(shape.chunk(piece.text))
    yield _event(shape.chunk("", piece.reason))
    if include_usage:
        yield _event(shape.usage_chunk(piece))
    yield b"data: [DONE]\n\n"


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


async def _respond(
    http: HttpRequest, served: ServedModel, asked: Asked, prompt: str | list[int], *, chat: bool
) -> Response:
    _check_model(asked.model, served.name)
    context_length = served.engine.model.config.context_length
    prompt_tokens = context_length  # of a text that is too long to be encoded, at least
    try:
        request = asked.request(prompt, served.options, context_length, strip=chat)
        prompt_tokens = len(request.prompt)
        answer = Answer(served.engine, request)
    except FullError as error:
        raise full_error(str(error)) from error
    except ClosingError as error:
        raise closing_error(str(error)) from error
    except InputError as error:
        code = "context_length_exceeded" if prompt_tokens >= context_length else None
        param = "messages" if chat else "prompt"
        raise ApiError(400, str(error), code=code, param=param) from error
    shape = Shape(served.name, prompt_tokens, chat)
    streamed = False
    try:
        if asked.stream:  # what goes wrong before the first piece still gets a status of its own
            events = _Events(answer, await _unless_gone(http, answer.next()), shape, asked)
            streamed = True
            return events
        return JSONResponse(shape.whole(*await _unless_gone(http, answer.whole())))
    finally:
        if not streamed:
            answer.cancel()


async def _unless_gone(http: HttpRequest, wanted: Coroutine[Any, Any, T]) -> T:
    """What is wanted, unless the client goes before."""
    task, gone = asyncio.ensure_future(wanted), asyncio.ensure_future(_gone(http))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise gone_error()
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _gone(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _check_model(wanted: str | None, served: str) -> None:
    if wanted not in (None, served):
        message = f"there is no model {wanted!r} here; ask for {served!r}"
        raise ApiError(404, message, code="model_not_found", param="model")
