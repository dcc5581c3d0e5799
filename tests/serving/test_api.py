"""The endpoint over real sockets: OpenAI's own client, curl, and those who ask badly."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from gate import Gate, open_gates

from twolevers.data.prompt import Entry, alpaca, find_style
from twolevers.data.tokenizer import get_tokenizer
from twolevers.device import find_device
from twolevers.generation.answerer import Answerer
from twolevers.generation.generate import generate
from twolevers.models.gpt2 import GPT2
from twolevers.options import GenerationOptions
from twolevers.serving.api import make_app
from twolevers.serving.engine import Engine
from twolevers.serving.served import ServedModel
from twolevers.serving.server import Server

SECONDS = 120
RUN = GenerationOptions(max_new_tokens=12)
"""As the run was told."""
USER = [{"role": "user", "content": "What is the capital of Bulgaria?"}]


@dataclass
class Endpoint:
    """A server that runs."""

    address: str
    server: Server
    engine: Engine
    thread: threading.Thread
    clients: list[openai.OpenAI] = field(default_factory=list)

    def client(self, key: str = "none") -> openai.OpenAI:
        address = f"{self.address}/v1"
        self.clients.append(openai.OpenAI(base_url=address, api_key=key, max_retries=0))
        return self.clients[-1]

    def post(self, body: object, path: str = "chat/completions", **more: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json", **more}
        url = f"{self.address}/v1/{path}"
        return httpx.post(url, content=content, headers=headers, timeout=SECONDS)


@contextmanager
def served(engine: Engine, key: str | None = None) -> Iterator[Endpoint]:
    """On a free port of loopback until the block ends."""
    model = ServedModel("tiny-1", engine, find_style("alpaca"), RUN)
    bound: list[int] = []
    listening = threading.Event()

    def on_start(port: int) -> None:
        bound.append(port)
        listening.set()

    server = Server(
        make_app(model, key), engine, host="127.0.0.1", port=0, grace=SECONDS, on_start=on_start
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert listening.wait(SECONDS)
    try:
        yield (endpoint := Endpoint(f"http://127.0.0.1:{bound[0]}", server, engine, thread))
    finally:
        for client in endpoint.clients:
            client.close()
        open_gates(engine.model)
        server.stop()
        thread.join(SECONDS)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def endpoint(model: GPT2) -> Iterator[Endpoint]:
    with served(Engine(model, find_device("cpu"))) as running:
        yield running


def wait_until(met: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_chat_gets_the_answer_that_generate_gives(endpoint: Endpoint, folder: Path) -> None:
    answerer = Answerer(folder, prompt_style="alpaca", device=find_device("cpu"))
    entry = Entry("What is the capital of Bulgaria?", "", output="")
    [expected] = answerer.answer([entry], RUN, seed=0)
    client = endpoint.client()
    assert [model.id for model in client.models.list()] == ["tiny-1"]
    answer = client.chat.completions.create(model="tiny-1", messages=USER)
    [choice] = answer.choices
    assert choice.message.content == expected
    assert choice.finish_reason == "length"
    prompt = get_tokenizer().encode(alpaca(entry))
    assert answer.usage.prompt_tokens == len(prompt)
    assert answer.usage.completion_tokens == 12
    assert answer.usage.total_tokens == len(prompt) + 12
    chunks = list(
        client.chat.completions.create(
            model="tiny-1", messages=USER, stream=True, stream_options={"include_usage": True}
        )
    )
    deltas = [chunk.choices[0] for chunk in chunks[:-1]]
    assert deltas[0].delta.role == "assistant"
    assert "".join(delta.delta.content or "" for delta in deltas) == expected
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == ["length"]
    assert chunks[-1].usage == answer.usage


def test_a_completion_takes_text_or_tokens_and_is_given_as_it_is(
    endpoint: Endpoint, model: GPT2
) -> None:
    ids = get_tokenizer().encode("Every effort moves you")
    [expected] = generate(model, [ids], GenerationOptions(max_new_tokens=20))
    text = get_tokenizer().decode(expected)
    client = endpoint.client()
    for prompt in ("Every effort moves you", ids, ["Every effort moves you"], [ids]):
        answer = client.completions.create(model="tiny-1", prompt=prompt, max_tokens=20)
        assert answer.choices[0].text == text
        assert answer.usage.completion_tokens == 20
    chunks = client.completions.create(model="tiny-1", prompt=ids, max_tokens=20, stream=True)
    pieces = [chunk.choices[0].text for chunk in chunks]
    assert "".join(pieces) == text
    assert len(pieces) > 2
    stop = text[8:11]
    cut = client.completions.create(model="tiny-1", prompt=ids, max_tokens=20, stop=[stop])
    assert cut.choices[0].text == text[: text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_a_seed_draws_the_same_again_and_none_draws_another(endpoint: Endpoint) -> None:
    def drawn(seed: int | None) -> str:
        body = {"prompt": "Every", "temperature": 1.0, "top_p": 0.9, "seed": seed}
        return str(endpoint.post(body, "completions").json()["choices"][0]["text"])

    assert drawn(5) == drawn(5)
    assert len({drawn(5), drawn(6), drawn(None), drawn(None)}) == 4


def test_many_at_once_get_what_each_gets_alone(endpoint: Endpoint, model: GPT2) -> None:
    prompts = [get_tokenizer().encode("word " * (1 + 5 * i) + str(i)) for i in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = pool.map(
            lambda ids: endpoint.post({"prompt": ids}, "completions").json()["choices"][0]["text"],
            prompts,
        )
    expected = [generate(model, [ids], RUN)[0] for ids in prompts]
    assert list(answers) == [get_tokenizer().decode(ids) for ids in expected]


def test_curl(endpoint: Endpoint) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    out = subprocess.run(
        [
            "curl", "-sSN", f"{endpoint.address}/v1/chat/completions",
            "-H", "Content-Type: application/json",
            "-d", json.dumps({"messages": USER, "stream": True, "max_tokens": 4}),
        ],
        capture_output=True, check=True, timeout=SECONDS, text=True, encoding="utf-8",
    ).stdout  # fmt: skip
    events = [event.removeprefix("data: ") for event in out.strip().split("\n\n")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"messages": [', "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        ([], "body"),
        ({"messages": [1] * 100_000}, "messages.0"),
        ({"messages": [{"role": "user", "content": {}}]}, "a valid string or input should be a"),
        ({"messages": USER, **{f"k{i}": i for i in range(12)}}, "; and 2 more"),
        ({"messages": USER, **{f"k{i}": i for i in range(9999)}}, "9,999 faults"),
        ({"messages": USER, "n": 2, "suffix": "x" * 9999}, "suffix: is not supported here"),
        ({}, "messages: field required"),
        ({"messages": []}, "at least 1 item"),
        ({"messages": USER, "n": 2}, "n 2: is not supported here; say 1, or leave it out"),
        ({"messages": USER, "logprobs": True}, "logprobs True: is not supported"),
        ({"messages": USER, "logit_bias": {"50256": -100}}, "logit_bias"),
        ({"messages": USER, "tools": [{"type": "function"}]}, "tools"),
        ({"messages": USER, "response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": USER, "presence_penalty": 0.5}, "presence_penalty 0.5"),
        ({"messages": USER, "temprature": 1}, "temprature: no such option"),
        ({"messages": USER, "\ud83d": 1}, "unicode"),
        ({"messages": USER, "temperature": -1}, "temperature: input should be greater"),
        ({"messages": USER, "temperature": float("nan")}, "temperature: input should be a finite"),
        ({"messages": USER, "top_p": -0.1}, "top_p"),
        ({"messages": USER, "max_tokens": 0}, "max_tokens"),
        ({"messages": USER, "stop": list("abcde")}, "at most 4"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0"),
        ({"messages": [*USER, {"role": "assistant", "content": "x"}]}, "end with a user"),
        (
            {"messages": [{"role": "user", "content": "word " * 1100}]},
            "tokens, the model sees 1,024 at once; shorten it to at most 1,023",
        ),
        ({"messages": [{"role": "user", "content": "x" * 200_000}]}, "200,"),
    ],
)
def test_bad_input_is_refused_in_openais_shape(endpoint: Endpoint, body: object, said: str) -> None:
    refused = endpoint.post(body)
    assert refused.status_code == 400, refused.text
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert said in error["message"]
    assert len(error["message"]) < 1000
    assert endpoint.engine.load == (0, 0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "prompt: field required"),
        ({"prompt": ""}, "holds no token"),
        ({"prompt": []}, "holds no token"),
        ({"prompt": ["a", "b"]}, "holds 2 prompts, one is answered a request"),
        ({"prompt": [50_257]}, "token 50257: is no token of the model"),
        ({"prompt": {}}, "prompt: input should be a valid string or input should be a valid list"),
        (
            {"prompt": [5, "a"]},
            "prompt: token ids are whole numbers",
        ),
        ({"prompt": [True]}, "token ids are whole numbers"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "best_of": 3}, "best_of"),
        ({"prompt": "a", "logprobs": 0}, "logprobs"),
    ],
)
def test_bad_completions_are_refused_too(endpoint: Endpoint, body: object, said: str) -> None:
    refused = endpoint.post(body, "completions")
    assert refused.status_code == 400, refused.text
    assert said in refused.json()["error"]["message"]


def test_what_says_nothing_new_is_taken(endpoint: Endpoint) -> None:
    body = {"messages": USER, "n": 1, "frequency_penalty": 0.0, "user": "me", "tools": []}
    body |= {"response_format": {"type": "text"}, "logprobs": False, "max_completion_tokens": 3}
    answer = endpoint.post(body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 3


def test_the_likeliest_alone_is_what_no_temperature_gives(endpoint: Endpoint) -> None:
    drawn = endpoint.post({"messages": USER, "temperature": 2, "top_p": 0}).json()
    greedy = endpoint.post({"messages": USER}).json()
    assert drawn["choices"] == greedy["choices"]


def test_other_errors_have_their_status(endpoint: Endpoint) -> None:
    with pytest.raises(openai.NotFoundError, match="ask for 'tiny-1'"):
        endpoint.client().chat.completions.create(model="gpt-4", messages=USER)
    with pytest.raises(openai.NotFoundError):
        endpoint.client().models.retrieve("gpt-4")
    assert endpoint.client().models.retrieve("tiny-1").id == "tiny-1"
    for too_long in ([1] * 1024, "x" * 200_000):
        with pytest.raises(openai.BadRequestError) as long:
            endpoint.client().completions.create(model="tiny-1", prompt=too_long)
        assert (long.value.code, long.value.param) == ("context_length_exceeded", "prompt")
    assert endpoint.post({}, "embeddings").json()["error"]["message"].startswith("POST /v1/emb")
    assert endpoint.post({}, "embeddings").status_code == 404
    wrong_way = httpx.get(f"{endpoint.address}/v1/completions")
    assert (wrong_way.status_code, wrong_way.headers["allow"]) == (405, "POST")
    without_v1 = httpx.post(f"{endpoint.address}/chat/completions").json()["error"]["message"]
    assert "there are GET /v1/models, POST /v1/completions" in without_v1
    form = endpoint.post({"messages": USER}, **{"content-type": "text/plain"})
    assert form.status_code == 400
    assert "Content-Type: application/json" in form.json()["error"]["message"]
    for length in (4 * 2**20 + 1, 30 * 2**20):  # also where it is still being sent
        assert endpoint.post(b" " * length).status_code == 413
    assert httpx.get(f"{endpoint.address}/health").json()["status"] == "ok"


def test_json_is_known_by_any_of_its_names_and_encodings(endpoint: Endpoint) -> None:
    body = {"messages": [{"role": "user", "content": "Grüße 😀"}], "max_tokens": 2}
    text = json.dumps(body, ensure_ascii=False)
    answers = {
        endpoint.post(text.encode(encoding), **{"content-type": name}).text.partition('"choices"')[
            2
        ]
        for name in ("application/json", "Application/JSON; charset=utf-8")
        for encoding in ("utf-8", "utf-8-sig", "utf-16")
    }
    assert len(answers) == 1
    assert '"finish_reason":"length"' in answers.pop()


def test_a_fault_of_the_program_has_openais_shape_too(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault\nwith lines")

    monkeypatch.setattr("twolevers.serving.api.read_asked", broken)
    with pytest.raises(openai.InternalServerError, match="RuntimeError: a fault"):
        endpoint.client().chat.completions.create(model="tiny-1", messages=USER)


def test_a_web_page_under_a_name_of_its_own_gets_nothing(endpoint: Endpoint) -> None:
    port = endpoint.address.rpartition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
        assert endpoint.post({"messages": USER}, host=host).status_code in (400, 403)
    for host in (f"localhost:{port}", "LOCALHOST", f"127.0.0.2:{port}", f"[::1]:{port}", "[::1]"):
        asked = {"messages": USER, "max_tokens": 1}
        assert endpoint.post(asked, host=host).status_code == 200


def test_a_key_is_asked_for(make_engine: Callable[..., Engine]) -> None:
    with served(make_engine(), key="right") as endpoint:
        with pytest.raises(openai.AuthenticationError, match="a key is required"):
            endpoint.client("wrong").models.list()
        assert endpoint.post({"messages": USER}).status_code == 401
        assert httpx.get(f"{endpoint.address}/health").status_code == 200
        assert endpoint.client("right").models.list().data[0].id == "tiny-1"


def test_a_full_queue_says_when_to_come_again(
    gate: Gate, make_engine: Callable[..., Engine]
) -> None:
    with (
        served(make_engine(max_batch=1, max_waiting=1)) as endpoint,
        ThreadPoolExecutor(2) as pool,
    ):
        taken = [pool.submit(endpoint.post, {"messages": USER}) for _ in range(2)]
        wait_until(lambda: sum(endpoint.engine.load) == 2)
        refused = endpoint.post({"messages": USER})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        with pytest.raises(openai.RateLimitError):
            endpoint.client().chat.completions.create(model="tiny-1", messages=USER, stream=True)
        gate.open()
        assert [one.result(SECONDS).status_code for one in taken] == [200, 200]


def let_time_be_up(engine: Engine) -> None:
    """For the one answer under way, however slow the machine is."""
    wait_until(lambda: engine.load == (1, 0))
    [ticket] = engine._running.values()
    ticket.deadline = time.monotonic()


def test_time_is_up(gate: Gate, make_engine: Callable[..., Engine]) -> None:
    with served(make_engine(timeout=300.0)) as endpoint, ThreadPoolExecutor(1) as pool:
        whole = pool.submit(endpoint.post, {"messages": USER})
        let_time_be_up(endpoint.engine)
        gate.open()
        late = whole.result(SECONDS)
        assert (late.status_code, late.headers["x-should-retry"]) == (504, "false")
        assert "time limit of 300 s" in late.json()["error"]["message"]


def test_a_stream_that_is_cut_says_so(gate: Gate, make_engine: Callable[..., Engine]) -> None:
    with served(make_engine(timeout=300.0)) as endpoint:
        gate.let(5)
        body = {"model": "tiny-1", "messages": USER, "stream": True, "max_tokens": 900}
        chunks = iter(endpoint.client().chat.completions.create(**body))
        assert next(chunks).choices[0].delta.role == "assistant"
        let_time_be_up(endpoint.engine)
        gate.open()
        with pytest.raises(openai.APIError, match="time limit of 300 s"):
            list(chunks)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_leaves_the_batch(
    gate: Gate, make_engine: Callable[..., Engine], stream: bool
) -> None:
    with served(make_engine()) as endpoint:
        gate.let(4)  # it cannot come to its end before the client goes
        body = json.dumps({"messages": USER, "stream": stream, "max_tokens": 900}).encode()
        host, port = endpoint.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            wait_until(lambda: endpoint.engine.load == (1, 0))
            [ticket] = endpoint.engine._running.values()
            wait_until(lambda: len(ticket.running.completion.token_ids) >= 3)
        wait_until(lambda: ticket.cancelled)
        gate.open()
        wait_until(lambda: endpoint.engine.load == (0, 0))
        assert len(ticket.running.completion.token_ids) < 900


def test_while_closing_new_requests_are_refused_and_running_ones_end(
    gate: Gate, make_engine: Callable[..., Engine]
) -> None:
    with served(make_engine(max_batch=1)) as endpoint, ThreadPoolExecutor(2) as pool:
        runs = pool.submit(endpoint.post, {"messages": USER})
        wait_until(lambda: endpoint.engine.load == (1, 0))
        waits = pool.submit(endpoint.post, {"messages": USER})
        wait_until(lambda: endpoint.engine.load == (1, 1))
        endpoint.server.stop()
        wait_until(lambda: httpx.get(f"{endpoint.address}/health").status_code == 503)
        assert endpoint.post({"messages": USER}).status_code == 503
        gate.open()
        assert waits.result(SECONDS).status_code == 503
        assert runs.result(SECONDS).json()["usage"]["completion_tokens"] == 12
        endpoint.thread.join(SECONDS)
        assert not endpoint.thread.is_alive()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{endpoint.address}/health")


@contextmanager
def half_sent(endpoint: Endpoint) -> Iterator[socket.socket]:
    """A request whose body does not come."""
    host, port = endpoint.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 1000\r\n"
        # Asked to go on, the server is known to be reading.
        client.sendall(f'{head}Expect: 100-continue\r\n\r\n{{"messages'.encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 100")
        yield client


def test_a_request_that_does_not_come_holds_up_no_end(
    make_engine: Callable[..., Engine],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("twolevers.serving.server.SECONDS_TO_SEND", 0.5)
    with served(make_engine()) as endpoint, half_sent(endpoint) as client:
        endpoint.server.stop()
        endpoint.thread.join(SECONDS)
        assert not endpoint.thread.is_alive()
        with suppress(ConnectionResetError):
            assert client.recv(1000) == b"", "it is hung up on"
    assert caplog.text == ""


def test_a_request_that_does_not_come_is_not_waited_for(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twolevers.serving.reading.SECONDS_TO_ARRIVE", 0.5)
    with half_sent(endpoint) as client:
        said = b"".join(iter(lambda: client.recv(10_000), b"")).decode()
    assert said.startswith("HTTP/1.1 408"), said
    assert "connection: close" in said
    assert "the request was not whole within 0.5 s" in said
    assert httpx.get(f"{endpoint.address}/health").json()["status"] == "ok"


def test_one_who_goes_in_mid_request_is_nobodys_fault(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with half_sent(endpoint):
        pass
    wait_until(lambda: not endpoint.server.server_state.tasks)
    assert caplog.text == ""
