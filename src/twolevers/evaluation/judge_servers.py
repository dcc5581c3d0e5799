"""The two ways to speak to a judge: Ollama's own, and OpenAI's, which many servers speak.

MayPass      nothing came, or what came was cut off or says `later`: asking again may help
Refused      this question cannot be answered; others may
InputError   no question can: no such model, no key, no server there
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import httpx

from twolevers.data.catalog import is_loopback
from twolevers.errors import InputError, Problem
from twolevers.evaluation.judge_options import KEY, Judge, JudgeOptions, key_for, public

if TYPE_CHECKING:
    from openai import APIStatusError

Messages = Sequence[Mapping[str, str]]
"""`role` and `content` of each, the newest last."""
SHOWN = 300


@dataclass(frozen=True)
class Reply:
    """What a judge said, and the tokens that it took."""

    text: str
    prompt_tokens: int
    reply_tokens: int


class MayPass(Exception):  # noqa: N818 - no error yet
    """Asking again may help, after `retry_after` seconds where the server says so."""

    def __init__(self, what: str, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.retry_after = retry_after


class Refused(Exception):  # noqa: N818
    """The judge does not take this question."""


class JudgeServer(Protocol):
    """A judge that can be asked, from several tasks at once."""

    async def served(self) -> str:
        """What goes by the model's name, as in `Judge`.

        Raises:
            MayPass: it does not answer properly just now.
            InputError: no server there, or it has no such model.
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
        self._client = _http(self._url, options.timeout)
        if key := key_for(self._url):  # Ollama asks for none, what stands before it may
            self._client.headers["Authorization"] = f"Bearer {key}"

    async def served(self) -> str:
        body = await self._request("GET", "/api/tags")
        digests = {one["name"]: one.get("digest") for one in _list(body, "models")}
        name = self._model if ":" in self._model else f"{self._model}:latest"
        if name not in digests:
            raise no_model(self._model, self._url, digests, f"fetch it: ollama pull {self._model}")
        return str(digests[name] or public(self._url))

    async def ask(self, judge: Judge, messages: Messages) -> Reply:
        options = {
            "temperature": judge.temperature,
            "seed": judge.seed,
            "num_predict": judge.max_reply_tokens,
            "num_ctx": judge.context_length,
        }
        question = {"model": judge.model, "messages": list(messages), "options": options}
        body = await self._request("POST", "/api/chat", question | {"stream": False})
        try:
            text = str(body["message"]["content"])
        except (KeyError, TypeError):
            raise MayPass(f"sends no message: {_excerpt(str(body))}") from None
        return _reply(text, messages, body.get("prompt_eval_count"), body.get("eval_count"))

    async def close(self) -> None:
        await self._client.aclose()

    async def _request(self, method: str, path: str, json: Any = None) -> dict[str, Any]:
        try:
            response = await self._client.request(method, self._url + path, json=json)
        except httpx.ConnectError as error:
            if method == "GET":
                raise no_server(self._url, error, "ollama serve") from error
            raise MayPass(f"cannot be reached ({error})") from error
        except httpx.TimeoutException as error:
            raise MayPass("does not answer in time") from error
        except httpx.TransportError as error:
            raise MayPass(f"cannot be reached ({error!r})") from error
        check(response.status_code, response.text, response.headers, self._url, self._model)
        try:
            body = response.json()
        except ValueError as error:
            raise MayPass(f"sends no whole JSON: {_excerpt(response.text)}") from error
        if not isinstance(body, dict):
            raise MayPass(f"sends no object: {_excerpt(response.text)}")
        return body


class OpenAIServer:
    """Chat completions through the `openai` client, which retries nothing itself."""

    def __init__(self, options: JudgeOptions) -> None:
        from openai import AsyncOpenAI

        self._url, self._model = str(options.url), str(options.model)
        self._longest = "max_tokens"  # its newer name is asked for by some models, known to few
        client: Any = _http(self._url, options.timeout)  # one of httpx2's, by its types alone
        self._client = AsyncOpenAI(
            api_key=key_for(self._url) or "none",
            base_url=self._url,
            timeout=options.timeout,
            max_retries=0,
            http_client=client,
        )

    async def served(self) -> str:
        """Its address; asks for the list of models to see whether anybody is there. What that list
        holds is not looked at: some servers take any name, some have no list."""
        import openai

        try:
            await self._client.models.list()
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                self._check(error)
        except openai.APITimeoutError as error:
            raise MayPass("does not answer in time") from error
        except openai.APIConnectionError as error:
            start = "for example `llama-server -m model.gguf`"
            raise no_server(self._url, error.__cause__ or error, start) from error
        except (ValueError, AttributeError, TypeError, openai.APIError):
            pass
        return public(self._url)

    async def ask(self, judge: Judge, messages: Messages) -> Reply:
        import openai

        question: Any = {
            "model": judge.model,
            "messages": list(messages),
            "temperature": judge.temperature,
            "seed": judge.seed,
            self._longest: judge.max_reply_tokens,
        }
        try:
            found = await self._client.chat.completions.create(**question)
            text = str(found.choices[0].message.content or "")
        except openai.APIStatusError as error:
            newer = "max_completion_tokens"
            wanted = error.status_code == 400 and newer in error.response.text
            if wanted and newer not in question:
                self._longest = newer
                return await self.ask(judge, messages)
            self._check(error)
            raise MayPass(f"answers {error.status_code}") from error
        except openai.APITimeoutError as error:
            raise MayPass("does not answer in time") from error
        except openai.APIConnectionError as error:
            raise MayPass(f"cannot be reached ({error.__cause__ or error!r})") from error
        except (ValueError, AttributeError, TypeError, IndexError, openai.APIError) as error:
            raise MayPass(f"sends no whole chat completion ({error})") from error
        usage = found.usage
        return _reply(
            text,
            messages,
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
        )

    async def close(self) -> None:
        await self._client.close()

    def _check(self, error: APIStatusError) -> None:
        answer = error.response
        check(answer.status_code, answer.text, answer.headers, self._url, self._model)


def check(status: int, text: str, headers: Mapping[str, str], url: str, model: str) -> None:
    """Nothing for a success, else the error that a status means.

    Raises:
        MayPass, Refused, InputError: as on top.
    """
    if status < 400:
        return
    said = _excerpt(text)
    if status in (401, 403):
        raise InputError(
            Problem(
                "the judge's key",
                None,
                f"{public(url)} does not take it ({status}: {said})",
                f"set {KEY} in the environment to a key of that server",
            )
        )
    if status in (404, 405):
        raise InputError(
            Problem(
                "--judge-model",
                model,
                f"{public(url)} answers {status}: {said}",
                "name a model that it serves, or correct --judge-url and --judge",
            )
        )
    if status == 429 and "insufficient_quota" in text:
        raise InputError(
            Problem("the judge", model, f"has no credit left: {said}", "add some, or name another")
        )
    if status in (408, 409, 425, 429) or status >= 500:
        raise MayPass(f"answers {status}: {said}", _seconds(headers.get("retry-after")))
    raise Refused(f"{public(url)} answers {status}: {said}")


def no_server(url: str, error: BaseException, start: str) -> InputError:
    """What is said where nobody listens."""
    return InputError(
        Problem(
            "--judge-url",
            public(url),
            f"no server answers there ({error})",
            f"start it ({start}) or name another",
        )
    )


def no_model(model: str, url: str, there: Mapping[str, object], way_out: str) -> InputError:
    """What is said where the server lacks the model."""
    known = ", ".join(sorted(there)) or "none"
    return InputError(
        Problem("--judge-model", model, f"{public(url)} does not have it (it has {known})", way_out)
    )


def _http(url: str, timeout: float) -> httpx.AsyncClient:
    # A proxy may be the way to a server elsewhere, never to one of this machine.
    elsewhere = not is_loopback(urlsplit(url).hostname or "")
    # Reading the certificates takes longer than a request to this machine.
    return httpx.AsyncClient(timeout=timeout, trust_env=elsewhere, verify=url.startswith("https"))


def _reply(text: str, messages: Messages, prompt: object, reply: object) -> Reply:
    """With the tokens that the server counted; where it did not, one for three bytes, which is
    rather too many than too few."""
    sent = sum(len(message["content"].encode()) for message in messages)
    counts = [
        int(counted) if isinstance(counted, int) else -(-size // 3)
        for counted, size in ((prompt, sent), (reply, len(text.encode())))
    ]
    return Reply(text, *counts)


def _list(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = body.get(name)
    return [one for one in found if isinstance(one, dict) and "name" in one] if found else []


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After header, which is seconds or a date."""
    if not retry_after:
        return None
    try:
        return max(float(retry_after), 0.0)
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except ValueError:
        return None


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
