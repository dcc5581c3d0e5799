"""Judges' servers as they are met: not there, slow, behind a certificate, shared by two."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from judge_server import MODEL, Fault, JudgeServer

from twolevers.errors import InputError, TwoleversError
from twolevers.evaluation import judge_servers
from twolevers.evaluation.judge import Judged, judge_answers
from twolevers.evaluation.judge_asking import check_judge
from twolevers.evaluation.judge_options import JudgeOptions
from twolevers.generation.answers import Answer
from twolevers.progress import Silent

PROTOCOLS = pytest.mark.parametrize("protocol", ["ollama", "openai"])


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TWOLEVERS_JUDGE_KEY", "OPENAI_API_KEY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer() as judge:
        yield judge


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def options(url: str, **given: Any) -> JudgeOptions:
    told: dict[str, Any] = {"url": url, "model": "llama3", "ask_twice": 0}
    return JudgeOptions(**(told | given))


def ask(asked: JudgeOptions, folder: Path, *responses: str) -> Judged:
    answers = [
        Answer(f"Question {i}", "", "right", text, "", True, i + 1)
        for i, text in enumerate(responses or ("right", "wrong"))
    ]
    return judge_answers({"tuned": answers}, asked, folder=folder, progress=Silent())


@PROTOCOLS
def test_a_judge_that_is_there_is_seen(server: JudgeServer, protocol: str) -> None:
    asked = check_judge(options(server.url + "/", protocol=protocol, model=MODEL))
    assert asked.url == server.url
    assert server.questions == []


def test_a_model_that_the_list_lacks_is_asked_a_word(server: JudgeServer) -> None:
    """Some servers take any name."""
    check_judge(options(server.url, protocol="openai", model="llama3"))
    [question] = server.questions
    assert (question["model"], question["max_tokens"]) == ("llama3", 16)


@PROTOCOLS
def test_a_model_that_is_not_there_is_seen(server: JudgeServer, protocol: str) -> None:
    with pytest.raises(InputError, match="--judge-model 'llama9'"):
        check_judge(options(server.url, protocol=protocol, model="llama9"))
    assert len(server.questions) <= 1


@PROTOCOLS
def test_the_time_limit_holds_from_the_first_look_on(
    silent: str, protocol: str, tmp_path: Path
) -> None:
    asked = options(silent, protocol=protocol, max_seconds=0.1)
    for judge in (check_judge, lambda one: ask(one, tmp_path)):
        with pytest.raises(TwoleversError, match=r"gives no reply: none within .* of 0\.1 s"):
            judge(asked)


@PROTOCOLS
def test_a_host_that_is_dead_is_said_once(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes back, not even a refusal: as from a machine that is off."""
    assert judge_servers.LONGEST_CONNECT <= 10
    monkeypatch.setattr(judge_servers, "LONGEST_CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:  # what does not fit into the queue is never answered
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        with pytest.raises(InputError, match="no server answers there"):
            ask(options(url, protocol=protocol), tmp_path)
        for one in waiting:
            one.close()


@pytest.mark.parametrize("root", ["/v1", "", "/openai/v1"])
@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("named", [True, False], ids=["with v1", "without"])
def test_an_address_with_or_without_v1(root: str, end: str, named: bool, tmp_path: Path) -> None:
    given = root if named else root.removesuffix("/v1")
    with JudgeServer(root=root) as judge:
        asked = options(f"{judge.url}{given}{end}", protocol="openai")
        assert ask(asked, tmp_path).result.num_asked == 2
        with pytest.raises(InputError, match="model 'llama9' not found"):
            check_judge(asked.model_copy(update={"model": "llama9"}))


def test_settings_that_were_not_sent_are_kept_with_the_result(
    server: JudgeServer, tmp_path: Path
) -> None:
    server.faults.append(Fault(status=400, body="unknown field: seed"))
    server.faults.append(Fault(status=400, body="max_tokens: not allowed"))
    asked = options(server.url, protocol="openai")
    result = ask(asked, tmp_path).result
    assert result.left_out == ("max_reply_tokens", "seed")
    again = ask(asked, tmp_path).result
    assert (again.num_asked, again.left_out) == (0, result.left_out)


@PROTOCOLS
def test_a_certificate_of_ones_own(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-subj", "/CN=judge", "-addext", "subjectAltName=IP:127.0.0.1"]
    try:
        subprocess.run(
            [*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("openssl, which makes the certificate, is not here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with JudgeServer() as judge:
        judge.server.socket = context.wrap_socket(judge.server.socket, server_side=True)
        asked = options(judge.url.replace("http:", "https:"), protocol=protocol)
        with pytest.raises(InputError, match=r"no safe connection .* SSL_CERT_FILE"):
            ask(asked, tmp_path / "judgements")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ask(asked, tmp_path / "judgements").result.num_asked == 2


def test_two_judges_at_once_share_what_they_have(server: JudgeServer, tmp_path: Path) -> None:
    both, lock, waited = threading.Barrier(2), threading.Lock(), []

    def reply(messages: list[dict[str, str]]) -> str:
        with lock:
            first = len(waited) < 2
            waited.append(messages[0]["content"])
        if first:  # neither goes on before the other has begun
            both.wait(60)
        time.sleep(0.005)
        return "Score: 50"

    server.reply = reply
    texts = [f"answer {i}" for i in range(30)]
    asked = options(server.url, concurrency=1)
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(ask, asked, tmp_path, *texts) for _ in range(2)]
        results = [one.result().result for one in found]
    for result in results:
        assert result.sets["tuned"].num_scored == 30
        assert result.num_asked + result.num_kept == 30
    assert set(waited) == set(server.texts)
    assert len(set(waited)) == 30
    assert len(waited) <= 32  # where they meet, both may ask the same
    [file] = tmp_path.glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len({line["key"] for line in lines}) == 30
