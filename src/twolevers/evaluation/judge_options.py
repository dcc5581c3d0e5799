"""What a judge is told, and which of it decides whether its judgements may be used again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from twolevers.errors import InputError, Problem
from twolevers.evaluation.judge_prompts import PREFERENCE, SCORE_PROMPTS, find_prompt
from twolevers.files import hash_of
from twolevers.options import Group, flag, unit
from twolevers.records import Record

Protocol = Literal["ollama", "openai"]
URLS = {"ollama": "http://127.0.0.1:11434", "openai": "https://api.openai.com/v1"}
KEY = "TWOLEVERS_JUDGE_KEY"
OPENAI_KEY = "OPENAI_API_KEY"


class JudgeOptions(Group):
    """Who judges, how many questions at once, and what that may cost."""

    protocol: Protocol = Field(
        "ollama",
        description="how the judge is spoken to: ollama, or openai for what speaks like it",
    )
    model: str | None = Field(None, description="the judge's model; for ollama by default llama3")
    url: str | None = Field(
        None, description="the judge's address; by default Ollama's on this machine, or OpenAI's"
    )
    prompt: str = Field(
        "scored",
        description="what the judge is asked: "
        + ", ".join(f"{prompt.name} ({prompt.description})" for prompt in SCORE_PROMPTS.values()),
        json_schema_extra={"enum": list(SCORE_PROMPTS)},
    )
    seed: int = Field(123, ge=0, lt=2**31, description="the judge's, and that of every interval")
    max_reply_tokens: int = Field(
        256, ge=8, description="longest reply", json_schema_extra=unit("tokens")
    )
    concurrency: int = Field(
        4, ge=1, le=256, description="questions at once", json_schema_extra=unit("questions")
    )
    timeout: float = Field(
        300.0, gt=0, description="longest wait for one reply", json_schema_extra=unit("seconds")
    )
    ask_twice: int = Field(
        10,
        ge=0,
        description="answers judged twice, for the judge's own spread",
        json_schema_extra=unit("answers"),
    )
    max_seconds: float | None = Field(
        None,
        gt=0,
        description="stop after this time; what was judged is kept",
        json_schema_extra=unit("seconds"),
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="begin no question once so many tokens were used, prompts and replies together",
        json_schema_extra=unit("tokens"),
    )
    max_cost: float | None = Field(
        None, gt=0, description="begin no question once this was spent, by the prices given"
    )
    price_in: float = Field(0.0, ge=0, description="price of a million tokens of prompts")
    price_out: float = Field(0.0, ge=0, description="price of a million tokens of replies")


_FLAGS = {
    "protocol": "judge",
    "model": "judge_model",
    "url": "judge_url",
    "prompt": "judge_prompt",
    "seed": "judge_seed",
    "timeout": "judge_timeout",
}


def judge_flags() -> list[tuple[str, FieldInfo]]:
    """Every option under the name that it has on the command line."""
    return [(_FLAGS.get(name, name), field) for name, field in JudgeOptions.model_fields.items()]


def judge_options_from(given: Mapping[str, Any]) -> JudgeOptions:
    """Values by their names on the command line to options.

    Raises:
        InputError: every value out of bounds or of the wrong type.
    """
    names = {_FLAGS.get(name, name): name for name in JudgeOptions.model_fields}
    try:
        return JudgeOptions.model_validate({names[key]: value for key, value in given.items()})
    except ValidationError as error:
        raise InputError(
            [
                Problem(
                    flag(_FLAGS.get(name := str(fault["loc"][-1]), name)),
                    fault["input"],
                    fault["msg"][0].lower() + fault["msg"][1:],
                    f"it is: {JudgeOptions.model_fields[name].description}",
                )
                for fault in error.errors()
            ]
        ) from error


class Judge(Record):
    """A judge as far as its judgements depend on it. Equal records, equal judgements: those kept
    under the hash of one are used again, any other judge asks anew."""

    protocol: Protocol
    model: str
    served: str
    """What goes by that name: Ollama's digest of the model, elsewhere the server's address."""
    prompt: str
    """Name of the prompt."""
    prompt_sha256: str
    """Of every text that the judge is sent but for the entries themselves."""
    temperature: float = 0.0
    seed: int
    max_reply_tokens: int
    context_length: int = 4096
    """Of an Ollama model, in tokens: Ollama cuts a longer prompt without a word. The longest
    entry of a GPT-2, reference and answer each up to its context of 1,024, has room in it."""

    @property
    def sha256(self) -> str:
        return hash_of(self.model_dump(mode="json"))


def judge_of(options: JudgeOptions, served: str) -> Judge:
    """The judge that these options mean.

    Args:
        served: as in `Judge`.
    """
    prompt = SCORE_PROMPTS[options.prompt]
    return Judge(
        protocol=options.protocol,
        model=options.model or "",
        served=served,
        prompt=prompt.name,
        prompt_sha256=hash_of([p.template + p.reminder for p in (prompt, PREFERENCE)]),
        seed=options.seed,
        max_reply_tokens=options.max_reply_tokens,
    )


def check_options(options: JudgeOptions) -> JudgeOptions:
    """The options with model and address set, the address without a slash at its end.

    Raises:
        InputError: every value that cannot be used.
    """
    problems: list[Problem] = []
    try:
        find_prompt(options.prompt)
    except InputError as error:
        problems += error.problems
    model = options.model or ("llama3" if options.protocol == "ollama" else "")
    if not model.strip():
        problems.append(
            Problem("--judge-model", None, "is not given", "name a model that the judge serves")
        )
    url = _root((options.url or URLS[options.protocol]).strip(), options.protocol)
    if fault := _fault(url):
        way_out = f"give it like {URLS[options.protocol]}, a key in the environment: {KEY}"
        problems.append(Problem("--judge-url", public(url), fault, way_out))
    elif options.protocol == "openai" and key_for(url) is None and _is_openai(url):
        problems.append(
            Problem(
                "the judge's key",
                None,
                f"{public(url)} asks for one",
                f"set {OPENAI_KEY} or {KEY} in the environment, or name another server: "
                "--judge-url",
            )
        )
    if not fault and not ((key := key_for(url) or "").isascii() and key.isprintable()):
        way_out = f"set {KEY} in the environment anew"
        problems.append(Problem("the judge's key", None, "holds signs that no key has", way_out))
    if options.max_cost is not None and not (options.price_in or options.price_out):
        problems.append(
            Problem(
                "--max-cost",
                options.max_cost,
                "needs the price of a million tokens",
                "add --price-in and --price-out, or limit the tokens: --max-tokens",
            )
        )
    if problems:
        raise InputError(problems)
    return options.model_copy(update={"model": model.strip(), "url": url})


def key_for(url: str) -> str | None:
    """The key from the environment. OpenAI's own is given to no other server."""
    names = (KEY, OPENAI_KEY) if _is_openai(url) else (KEY,)
    return next((key for name in names if (key := os.environ.get(name, "").strip())), None)


def _root(url: str, protocol: Protocol) -> str:
    """What every path is put behind: people copy the address of a path, or of the other protocol
    that Ollama speaks too."""
    url = url.rstrip("/")
    ends = ("/api/chat", "/api/generate", "/api/tags", "/api", "/v1")
    for end in ends if protocol == "ollama" else ("/chat/completions", "/completions", "/models"):
        url = url.removesuffix(end).rstrip("/")
    return url


def public(url: str) -> str:
    """An address as it may be shown and kept: what stands before an `@`, a password, left out."""
    kind, slashes, rest = url.partition("?")[0].rpartition("://")
    return f"{kind}{slashes}{rest.rpartition('@')[2]}"


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _fault(url: str) -> str:
    try:
        parts: Any = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        return f"is no address ({error})"
    if parts.username or parts.password or parts.query or parts.fragment:
        kept = "which would be kept with the result"
        return f"holds a user name, a password, a query or a fragment, {kept}"
    return "" if known else "is no address of a server"
