"""Continuous batching: one model, many who ask, whenever they come.

A thread of the engine's own continues all running answers a token a step. Between two steps
answers that are complete, cancelled or late leave the batch and waiting requests join it. The
answers are those of `generation.generate`, token for token in float32.

    submit ──► waiting (bounded) ──► running (max_batch) ──► the last piece, with the reason
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from twolevers.computing import computing
from twolevers.data.tokenizer import END_OF_TEXT
from twolevers.device import Device
from twolevers.errors import InputError, TwoleversError
from twolevers.generation.generate import prompt_problems
from twolevers.generation.running import Running, RunningBatch
from twolevers.generation.sampling import Chance
from twolevers.models.gpt2 import GPT2
from twolevers.options import GenerationOptions
from twolevers.serving.text import TextStream
from twolevers.training.precision import autocast

PROMPT_TOKENS = 2048
"""Prompts read between two steps, in tokens (at least one prompt): running answers wait for it."""

Reason = Literal["stop", "length", "cancelled", "timeout", "closing", "failed"]
"""Why an answer ended: by itself or a stop text; its room used up; cut by who asked, by the time
limit, by the server's end; the model could not compute it."""


class FullError(TwoleversError):
    """No more requests are taken until some have been answered."""


class ClosingError(TwoleversError):
    """No more requests are taken: the engine is being closed."""


class CutError(TwoleversError):
    """An answer ended before it was complete."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Request:
    """A prompt and how it is to be answered."""

    prompt: tuple[int, ...]
    """Token ids."""
    options: GenerationOptions
    seed: int = 0
    """For a temperature above 0: the same seed draws the same answer."""
    stop: tuple[str, ...] = ()
    """Texts before which the answer ends."""
    strip: bool = False
    """White space at both ends of the answer is left out."""
    stop_id: int | None = END_OF_TEXT


@dataclass(frozen=True)
class Piece:
    """What has come of an answer since the last piece."""

    text: str
    new_tokens: int
    """Of the answer so far, the stop token not counted."""
    reason: Reason | None = None
    """On the last piece alone."""
    message: str = ""
    """What happened, where the answer is not complete."""


Deliver = Callable[[Piece], None]


@dataclass(eq=False)
class Ticket:
    """A request that was taken."""

    request: Request
    deliver: Deliver
    running: Running
    text: TextStream
    deadline: float
    """`time.monotonic()` at which its time is up."""
    cancelled: bool = False

    def cancel(self) -> None:
        """Nobody waits for it any more; it leaves before the next step."""
        self.cancelled = True


class Engine:
    """A model that answers many at once, until it is closed.

    Args:
        model: on its device.
        precision: of matrix products, explicit.
        max_batch: answers that are continued together.
        max_waiting: requests that wait beyond those; one more is refused.
        timeout: longest time from a request to the end of its answer, in seconds.
    """

    def __init__(
        self,
        model: GPT2,
        device: Device,
        precision: str = "float32",
        *,
        max_batch: int = 16,
        max_waiting: int = 64,
        timeout: float = 120.0,
    ) -> None:
        self.model, self.timeout = model.eval(), timeout
        self.max_batch, self.max_waiting = max_batch, max_waiting
        self._autocast = autocast(device, precision)
        self._waiting: deque[Ticket] = deque()
        self._running: dict[Running, Ticket] = {}
        self._batch: RunningBatch | None = None
        self._closing = False
        self._cut_at = float("inf")
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    @property
    def load(self) -> tuple[int, int]:
        """Requests that are running and that wait."""
        with self._changed:
            return len(self._running), len(self._waiting)

    @property
    def is_closing(self) -> bool:
        return self._closing

    def submit(self, request: Request, deliver: Deliver) -> Ticket:
        """Takes a request. Its pieces go to `deliver` as they come, from the engine's thread; the
        last one has a reason. `deliver` returns at once and raises nothing.

        Raises:
            InputError: a prompt that cannot be continued.
            FullError: as many requests wait as may.
            ClosingError: the engine is being closed.
        """
        if problems := list(prompt_problems([request.prompt], self.model.config)):
            raise InputError(problems)
        drawn = request.options.temperature > 0
        chance = Chance(request.prompt, request.seed) if drawn else None
        ticket = Ticket(
            request,
            deliver,
            Running(request.prompt, request.options, chance, request.stop_id),
            TextStream(request.stop, strip=request.strip),
            time.monotonic() + self.timeout,
        )
        with self._changed:
            if self._closing:
                raise ClosingError("the server is being closed; ask again once it is back")
            if len(self._running) + len(self._waiting) >= self.max_batch + self.max_waiting:
                raise FullError(
                    f"{self.max_batch} requests are being answered and {self.max_waiting} wait, "
                    "which is all that may; ask again in a moment"
                )
            self._waiting.append(ticket)
            self._changed.notify_all()
        return ticket

    def stream(self, request: Request) -> Iterator[str]:
        """The answer's text as it comes. One who stops reading cancels it.

        Raises:
            CutError: it ended before it was complete. Else as `submit`.
        """
        pieces: queue.SimpleQueue[Piece] = queue.SimpleQueue()
        ticket = self.submit(request, pieces.put)
        try:
            while True:
                piece = pieces.get()
                if piece.text:
                    yield piece.text
                if piece.reason in ("stop", "length"):
                    return
                if piece.reason is not None:
                    raise CutError(piece.reason, piece.message)
        finally:
            ticket.cancel()

    def close(self, grace: float = 0.0) -> None:
        """Takes no more requests, cuts those that wait, lets running answers end for `grace`
        seconds and cuts the rest. Returns when all are told. May be called again, to cut sooner."""
        with self._changed:
            self._closing = True
            self._cut_at = min(self._cut_at, time.monotonic() + grace)
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        with computing(), torch.no_grad(), self._autocast:
            while (new := self._next()) is not None:
                try:
                    self._go_on(new)
                except Exception as error:  # told to all who wait for it; the next may be luckier
                    self._fail(error)

    def _next(self) -> list[Ticket] | None:
        """Those who join now; first those who have to leave do. None: closed, nobody is left."""
        with self._changed:
            if not self._running:
                self._batch = None  # gives its memory back, which grew with the longest answer
            self._changed.wait_for(lambda: self._waiting or self._running or self._closing)
            now = time.monotonic()
            for ticket in [*self._running.values(), *self._waiting]:
                if cut := self._cut(ticket, now):
                    self._finish(ticket, *cut)
            new: list[Ticket] = []
            tokens = 0
            while self._waiting and len(self._running) < self.max_batch:
                tokens += len(self._waiting[0].request.prompt)
                if new and tokens > PROMPT_TOKENS:
                    break
                ticket = self._waiting.popleft()
                self._running[ticket.running] = ticket
                new.append(ticket)
            return new if self._running or not self._closing else None

    def _cut(self, ticket: Ticket, now: float) -> tuple[Reason, str] | None:
        """Why a ticket is not to be continued, and in words; None where it is."""
        if ticket.cancelled:
            return "cancelled", "cancelled by the client"
        if now >= ticket.deadline:
            return "timeout", f"not answered within the time limit of {self.timeout:g} s"
        if self._closing and (now >= self._cut_at or ticket.running not in self._running):
            return "closing", "the server is being closed"
        return None

    def _go_on(self, new: list[Ticket]) -> None:
        if not self._running:
            return
        if self._batch is None:
            self._batch = RunningBatch(self.model, self.max_batch)
        batch = self._batch
        for running, token_id in batch.join([ticket.running for ticket in new]) if new else ():
            self._tell(self._running[running], token_id)
        for running, token_id in batch.step() if len(batch) else ():
            self._tell(self._running[running], token_id)

    def _tell(self, ticket: Ticket, token_id: int | None) -> None:
        """Hands on what a token makes certain, and ends the answer where it is complete."""
        text = "" if token_id is None else ticket.text.push(token_id)
        if ticket.text.stopped:
            self._finish(ticket, "stop", text=text)
        elif ticket.running.is_over:
            reason: Reason = "stop" if ticket.running.completion.ended else "length"
            self._finish(ticket, reason, text=text)
        elif text:
            ticket.deliver(Piece(text, len(ticket.running.completion.token_ids)))

    def _finish(self, ticket: Ticket, reason: Reason, message: str = "", text: str = "") -> None:
        """The ticket's last piece; it leaves wherever it is."""
        with self._changed:
            if ticket.running in self._running:
                del self._running[ticket.running]
                if self._batch is not None:
                    self._batch.leave(ticket.running)
            else:
                self._waiting.remove(ticket)
        tokens = len(ticket.running.completion.token_ids)
        ticket.deliver(Piece(text + ticket.text.end(), tokens, reason, message))

    def _fail(self, error: Exception) -> None:
        self._batch = None
        for ticket in list(self._running.values()):
            self._finish(ticket, "failed", f"{type(error).__name__}: {error}")
