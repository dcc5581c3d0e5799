"""Asking a judge many questions: several at once, again where that may help, within limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from twolevers.errors import InputError, TwoleversError
from twolevers.evaluation.judge_faults import MayPass, Refused
from twolevers.evaluation.judge_options import (
    Judge,
    JudgeOptions,
    check_options,
    judge_of,
    public,
)
from twolevers.evaluation.judge_prompts import JudgePrompt
from twolevers.evaluation.judge_replies import Messages, Reply
from twolevers.evaluation.judge_servers import JudgeServer, open_server
from twolevers.evaluation.judge_waits import Sleep, attempts
from twolevers.evaluation.judgements import Judgement, Judgements, key_of
from twolevers.progress import Progress, Silent

T = TypeVar("T")
FAILED_IN_A_ROW = 3
"""After so many questions without a reply, none between them, the server counts as gone."""


@dataclass(frozen=True)
class Question:
    """One question: its whole text, and how often it was asked before."""

    prompt: JudgePrompt
    text: str
    time: int = 0

    @property
    def key(self) -> str:
        return key_of(self.text, self.time)


@dataclass
class Spent:
    """What asking has taken."""

    asked: int = 0
    """Questions that got a reply now."""
    kept: int = 0
    """Those that had one from before."""
    failed: int = 0
    """Those that got none; asked again next time."""
    failure: str = ""
    """Of the last of these."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    seconds: float = 0.0
    stopped: str = ""
    """The limit that ended it, empty where none did."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.reply_tokens

    def cost(self, options: JudgeOptions) -> float:
        """In whatever the prices are in."""
        price = self.prompt_tokens * options.price_in + self.reply_tokens * options.price_out
        return price / 1e6


def ask_all(
    questions: Sequence[Question],
    options: JudgeOptions,
    keep: Callable[[Judge], Judgements],
    progress: Progress,
    sleep: Sleep = asyncio.sleep,
) -> tuple[Judge, Judgements, Spent]:
    """Asks what is not kept yet; equal questions are asked once.

    Until one question has a reply they go one by one: what is wrong with all of them costs one
    request.

    Args:
        options: checked.
        keep: where the judgements of a judge are kept.
        sleep: waits between two attempts.

    Returns:
        The judge, its judgements and what asking took. A limit ends it early and is named there.

    Raises:
        InputError: no server there, no such model, no key that it takes.
        TwoleversError: it no longer answers. What was judged is kept.
    """
    asking = _Asking(options, progress, sleep)
    return asyncio.run(asking.run(questions, keep))


def check_judge(asked: JudgeOptions, sleep: Sleep = asyncio.sleep) -> JudgeOptions:
    """The options as `check_options` gives them, once the judge's server was seen to have its
    model: before work is done for it.

    Raises:
        InputError, TwoleversError: as `ask_all`, and values that cannot be used.
    """
    options = check_options(asked)
    asyncio.run(_Asking(options, Silent(), sleep).look())
    return options


@dataclass
class _Asking:
    options: JudgeOptions
    progress: Progress
    sleep: Sleep
    spent: Spent = field(default_factory=Spent)
    failed_in_a_row: int = 0

    async def run(
        self, questions: Sequence[Question], keep: Callable[[Judge], Judgements]
    ) -> tuple[Judge, Judgements, Spent]:
        began = time.monotonic()
        self.server: JudgeServer = open_server(self.options)
        try:
            async with self._limited():
                served = await self._patiently(self.server.served)
            self.judge = judge_of(self.options, served)
            self.judgements = keep(self.judge)
            different = {question.key: question for question in questions}
            open_ones = [q for key, q in different.items() if self.judgements.get(key) is None]
            self.spent.kept = len(different) - len(open_ones)
            if not self.judgements.is_first:
                open_ones.reverse()
            self.progress.start("judge", len(open_ones), "questions")
            await self._within_the_time(open_ones, began)
        except (MayPass, Refused) as error:
            raise self._gone(error) from error
        finally:
            if hasattr(self, "judgements"):
                self.judgements.close()
            await self.server.close()
            self.progress.finish()
        self.spent.seconds = time.monotonic() - began
        return self.judge, self.judgements, self.spent

    async def look(self) -> None:
        self.server = open_server(self.options)
        try:
            async with self._limited():
                judge = judge_of(self.options, await self._patiently(self.server.served))
                await self._patiently(lambda: self.server.check_model(judge))
        except (MayPass, Refused) as error:
            raise self._gone(error) from error
        finally:
            await self.server.close()

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        """Ends by the time limit before there is anything to keep."""
        limit = self.options.max_seconds
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError:
            raise MayPass(f"none within the time limit of {limit:g} s") from None

    async def _within_the_time(self, questions: Sequence[Question], began: float) -> None:
        waiting = iter(questions)
        limit = self.options.max_seconds
        left = None if limit is None else limit - (time.monotonic() - began)
        try:
            async with asyncio.timeout(left):
                for question in waiting:
                    await self._ask(question)
                    if self.spent.asked:
                        break
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.options.concurrency, len(questions))):
                        group.create_task(self._work(waiting))
        except TimeoutError:
            self.spent.stopped = f"the time limit of {limit:g} s"
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _work(self, waiting: Iterable[Question]) -> None:
        for question in waiting:
            if stopped := self._limit():
                self.spent.stopped = stopped
                return
            await self._ask(question)

    def _limit(self) -> str:
        """The limit that is reached, empty where none is."""
        options, spent = self.options, self.spent
        if options.max_tokens is not None and spent.tokens >= options.max_tokens:
            return f"the limit of {options.max_tokens:,} tokens"
        if options.max_cost is not None and spent.cost(options) >= options.max_cost:
            return f"the cost limit of {options.max_cost:g}"
        return ""

    async def _ask(self, question: Question) -> None:
        self.judgements.refresh()
        if self.judgements.get(question.key):  # another asks the same judge
            self.spent.kept += 1
            return
        try:
            judgement = await self._judgement(question)
        except (MayPass, Refused, InputError) as error:
            # What stops one question after others had a reply is no matter of all, until it lasts.
            if isinstance(error, InputError) and not self.spent.asked:
                raise
            self.failed_in_a_row += 1
            self.spent.failed += 1
            self.spent.failure = str(error)
            never = isinstance(error, MayPass) and not self.spent.asked
            if never or self.failed_in_a_row >= FAILED_IN_A_ROW:
                raise self._gone(error) from error
            self.progress.note(f"The judge has no reply to one question: {error}")
            return
        self.failed_in_a_row = 0
        self.judgements.add(judgement)
        self.spent.asked += 1
        if self.spent.asked == 1 and (left_out := ", ".join(sorted(self.server.left_out))):
            self.progress.note(f"The judge does not take {left_out}; it is asked without.")
        self.progress.advance(self.spent.asked)

    async def _judgement(self, question: Question) -> Judgement:
        """What the judge says; a reply that holds no answer is asked about once more."""
        messages = [{"role": "user", "content": question.text}]
        replies = [await self._reply(messages)]
        reading = question.prompt.read(replies[0].text)
        if reading.value is None:
            said = replies[0].text.strip() or "(nothing)"
            messages += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": question.prompt.reminder},
            ]
            replies.append(await self._reply(messages))
            reading = question.prompt.read(replies[1].text)
        return Judgement(
            key=question.key,
            value=reading.value,
            reason=reading.reason,
            reply=replies[-1].text,
            replies=len(replies),
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            reply_tokens=sum(reply.reply_tokens for reply in replies),
            left_out=sorted(self.server.left_out),
        )

    async def _reply(self, messages: Messages) -> Reply:
        reply = await self._patiently(lambda: self.server.ask(self.judge, messages))
        self.spent.prompt_tokens += reply.prompt_tokens
        self.spent.reply_tokens += reply.reply_tokens
        return reply

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """The call, made again while it fails in a way that may pass."""
        async for attempt in attempts(self.sleep, self.progress.note):
            with attempt:
                # The client's own limit is for each part of a reply: one that dribbles never ends.
                try:
                    async with asyncio.timeout(self.options.timeout):
                        return await call()
                except TimeoutError as error:
                    raise MayPass("does not answer in time") from error
        raise AssertionError("it returns or raises")

    def _gone(self, error: Exception) -> TwoleversError:
        where = public(str(self.options.url))
        kept = self.spent.asked + self.spent.kept
        rest = f"{kept:,} judgements are kept; the same command asks only what is missing."
        return TwoleversError(
            f"The judge {self.options.model} at {where} gives no reply: {error}. "
            + (rest if kept else "Nothing is judged yet.")
        )
