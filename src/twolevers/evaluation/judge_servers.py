"""The two ways to speak to a judge: Ollama's own, and OpenAI's, which many servers speak."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import httpx

from twolevers.data.catalog import is_loopback
from twolevers.errors import InputError, Problem
from twolevers.evaluation.judge_faults import (
    LOADING_WAIT,
    MayPass,
    check,
    no_model,
    no_server,
    said,
)
from twolevers.evaluation.judge_options import Judge, JudgeOptions, key_for, public
from twolevers.evaluation.judge_replies import (
    Messages,
    Reply,
    error_in,
    excerpt,
    message_text,
    read_object,
    reply_of,
)

if TYPE_CHECKING:
    from openai import APIStatusError

NEWER_LIMIT = "max_completion_tokens"
LONGEST_CONNECT = 10.0
"""Seconds."""


class JudgeServer(Protocol):
    """A judge that can be asked, from several tasks at once."""

    left_out: frozenset[str]
    """Settings of a `Judge` that it does not take, known once it has replied."""

    async def served(self) -> str:
        """What goes by the model's name, as in `Judge`.

        Raises:
            MayPass: it does not answer properly just now.
            InputError: no server there, or it has no such model.
        """

    async def check_model(self, judge: Judge) -> None:
        """Sees that it has the model, where `served` could not; at most one short question.

        Raises:
            MayPass, Refused, InputError: as above.
        """

    async def ask(self, judge: Judge, messages: Messages) -> Reply:
        """One reply.

        Raises:
            MayPass, Refused, InputError: as above.
        """

    async def close(self) -> None:
        """Ends its connections."""


def open_server(options: JudgeOptions) -> JudgeServer:
    """The server that checked options name."""
    return OllamaServer(options) if options.protocol == "ollama" else OpenAIServer(options)


class OllamaServer:
    """Ollama's `/api/chat`, not streamed."""

    def __init__(self, options: JudgeOptions) -> None:
        self._url, self._model = str(options.url), str(options.model)
        self.left_out: frozenset[str] = frozenset()
        self._client = _http(self._url, options.timeout)
        if key := key_for(self._url):  # Ollama asks for none, what stands before it may
            self._client.headers["Authorization"] = f"Bearer {key}"

    async def served(self) -> str:
        body = await self._request("GET", "/api/tags")
        digests = {str(one["name"]): one.get("digest") for one in _list(body, "models")}
        name = self._model if ":" in self._model else f"{self._model}:latest"
        if name not in digests:
            raise no_model(self._model, self._url, digests, f"fetch it: ollama pull {self._model}")
        return str(digests[name] or public(self._url))

    async def check_model(self, judge: Judge) -> None:
        """`served` has seen it."""

    async def ask(self, judge: Judge, messages: Messages) -> Reply:
        options = {
            "temperature": judge.temperature,
            "seed": judge.seed,
            "num_predict": judge.max_reply_tokens,
            "num_ctx": judge.context_length,
        }
        question = {"model": judge.model, "messages": list(messages), "options": options}
        body = await self._request("POST", "/api/chat", question | {"stream": False})
        if body.get("done") is False or body.get("done_reason") == "load":
            raise MayPass("sends the beginning of a reply alone", LOADING_WAIT)
        text = _message(body, self._url, self._model)
        return reply_of(text, messages, body.get("prompt_eval_count"), body.get("eval_count"))

    async def close(self) -> None:
        await self._client.aclose()

    async def _request(self, method: str, path: str, json: Any = None) -> dict[str, Any]:
        try:
            response = await self._client.request(method, self._url + path, json=json)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if method == "GET":
                raise no_server(self._url, error, "ollama serve") from error
            raise MayPass(f"cannot be reached ({said(error)})") from error
        except httpx.TimeoutException as error:
            raise MayPass("does not answer in time") from error
        except httpx.RequestError as error:
            raise MayPass(f"cannot be reached ({said(error)})") from error
        check(response.status_code, response.text, response.headers, self._url, self._model)
        return _body(response.text, self._url)


class OpenAIServer:
    """Chat completions through the `openai` client, which retries nothing itself."""

    def __init__(self, options: JudgeOptions) -> None:
        from openai import AsyncOpenAI

        self._url, self._model = str(options.url), str(options.model)
        self._limit = "max_tokens"  # its newer name is asked for by some models, known to few
        self.left_out: frozenset[str] = frozenset()
        # Most servers have their API under /v1, and people leave that out.
        named, below = self._url, f"{self._url}/v1"
        base, other = (named, below) if urlsplit(named).path else (below, named)
        self._below_or_above = "" if re.search(r"/v\d+\w*$", named) else other
        self._other = ""
        self._listed: frozenset[str] = frozenset()
        client: Any = _http(self._url, options.timeout)  # one of httpx2's, by its types alone
        self._client = AsyncOpenAI(
            api_key=key_for(self._url) or "none",
            base_url=base,
            timeout=client.timeout,
            max_retries=0,
            http_client=client,
        )

    async def served(self) -> str:
        """Its address; asks for the list of models to see whether anybody is there. That the list
        lacks the model says nothing: some servers take any name, some have no list."""
        import openai

        try:
            listed = await self._client.models.list()
            self._listed = frozenset(one.id for one in listed.data)
        except openai.APIStatusError as error:
            if error.status_code == 401 or error.status_code < 400:
                self._check(error)
            if error.status_code in (404, 405):
                self._other = self._below_or_above
        except openai.APIConnectionError as error:
            if isinstance(cause := error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout)):
                start = "for example `llama-server -m model.gguf`"
                raise no_server(self._url, cause, start) from error
            if isinstance(error, openai.APITimeoutError):
                raise MayPass("does not answer in time") from error
            raise MayPass(f"cannot be reached ({said(cause or error)})") from error
        except (ValueError, AttributeError, TypeError, openai.APIError):
            pass
        return public(self._url)

    async def check_model(self, judge: Judge) -> None:
        if judge.model not in self._listed:
            short = judge.model_copy(update={"max_reply_tokens": 16})
            await self.ask(short, [{"role": "user", "content": "Say yes."}])

    async def ask(self, judge: Judge, messages: Messages) -> Reply:
        """One reply. Settings that the server says it does not take are left out from then on."""
        import openai

        limit, left_out = self._limit, self.left_out
        not_there: APIStatusError | None = None
        while True:
            names = {"temperature": "temperature", "seed": "seed", "max_reply_tokens": limit}
            sent = {name: names[name] for name in names if name not in left_out}
            question: Any = {called: getattr(judge, name) for name, called in sent.items()}
            asked: Any = list(messages)
            try:
                answer = await self._client.chat.completions.with_raw_response.create(
                    model=judge.model, messages=asked, **question
                )
                break
            except openai.APIStatusError as error:
                answer = error.response.text if error.status_code in (400, 422) else ""
                named = [
                    name for name, called in sent.items() if re.search(rf"\b{called}\b", answer)
                ]
                if limit == "max_tokens" and NEWER_LIMIT in answer:
                    limit = NEWER_LIMIT
                elif named:
                    left_out = left_out | {named[0]}
                elif error.status_code in (404, 405) and self._other:
                    self._client.base_url, self._other, not_there = self._other, "", error
                else:
                    # Of two that are not there, what says that the model is not is to be said.
                    lost = not_there if self._model not in error.response.text else None
                    self._check(lost or error)
                    raise MayPass(f"answers {error.status_code}") from error
            except openai.APITimeoutError as error:
                raise MayPass("does not answer in time") from error
            except openai.APIConnectionError as error:
                raise MayPass(f"cannot be reached ({said(error.__cause__ or error)})") from error
        body = _body(answer.text, self._url)
        text = _message(body, self._url, self._model)
        self._limit, self.left_out, self._other = limit, left_out, ""
        usage = body.get("usage")
        counted = usage if isinstance(usage, dict) else {}
        prompt, reply = counted.get("prompt_tokens"), counted.get("completion_tokens")
        return reply_of(text, messages, prompt, reply)

    async def close(self) -> None:
        await self._client.close()

    def _check(self, error: APIStatusError) -> None:
        answer = error.response
        check(answer.status_code, answer.text, answer.headers, self._url, self._model)


def _body(text: str, url: str) -> dict[str, Any]:
    try:
        return read_object(text, public(url))
    except ValueError as error:
        raise MayPass(str(error)) from None


def _message(body: Mapping[str, Any], url: str, model: str) -> str:
    if found := error_in(body):
        check(*found, {}, url, model)
        raise MayPass(f"says: {excerpt(found[1])}")
    text = message_text(body)
    if text is None:
        raise MayPass(f"sends no message: {excerpt(str(body))}")
    return text


def _http(url: str, timeout: float) -> httpx.AsyncClient:
    # A proxy may be the way to a server elsewhere, never to one of this machine.
    elsewhere = not is_loopback(urlsplit(url).hostname or "")
    limits = httpx.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT))
    try:
        # Reading the certificates takes longer than a request to this machine.
        verify = httpx.create_ssl_context() if url.startswith("https") else False
        return httpx.AsyncClient(timeout=limits, trust_env=elsewhere, verify=verify)
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        raise InputError(
            Problem(
                "the environment",
                None,
                f"its proxy or certificates cannot be used ({error})",
                "correct or unset HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE",
            )
        ) from error


def _list(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = body.get(name)
    there = found if isinstance(found, list) else []
    return [one for one in there if isinstance(one, dict) and "name" in one]
