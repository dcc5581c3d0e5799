"""A judge over answers, against a real server on loopback that speaks both protocols."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from judge_server import DIGEST, MODEL, Fault, JudgeServer, part

from twolevers.errors import InputError, TwoleversError
from twolevers.evaluation.judge import Judged, judge_answers
from twolevers.evaluation.judge_options import JudgeOptions
from twolevers.generation.answers import Answer
from twolevers.progress import Silent

Sets = Mapping[str, Sequence[Answer]]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TWOLEVERS_JUDGE_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer() as judge:
        yield judge


def answers(*responses: str, reference: str = "right") -> list[Answer]:
    return [
        Answer(f"Question {i}", "of this" if i % 2 else "", reference, text, "kind", True, i + 1)
        for i, text in enumerate(responses)
    ]


BASE_AND_TUNED: Sets = {
    "base": answers("wrong 1", "wrong 2", "right", "wrong 4"),
    "tuned": answers("right", "right", "right", "wrong 5"),
}


class Asking:
    """`judge_answers` with waits that take no time, and are kept."""

    def __init__(self, server: JudgeServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def __call__(self, sets: Sets = BASE_AND_TUNED, **given: Any) -> Judged:
        protocol = given.pop("protocol", "ollama")
        url = self.server.url + ("/v1" if protocol == "openai" else "")
        preferences = given.pop("preferences", False)
        told = {"protocol": protocol, "url": url, "model": "llama3", "ask_twice": 0}
        return judge_answers(
            sets,
            JudgeOptions(**(told | given)),
            folder=self.folder,
            progress=Silent(),
            preferences=preferences,
            sleep=self.sleep,
        )


@pytest.fixture
def ask(server: JudgeServer, tmp_path: Path) -> Asking:
    return Asking(server, tmp_path / "judgements")


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_base_against_tuned(ask: Asking, protocol: str) -> None:
    judged = ask(protocol=protocol)
    result = judged.result
    base, tuned = result.sets["base"], result.sets["tuned"]
    assert base.mean
    assert tuned.mean
    assert result.difference
    assert base.mean.mean == (20 + 20 + 100 + 20) / 4
    assert tuned.mean.mean == (100 + 100 + 100 + 20) / 4
    assert 20 <= tuned.mean.low <= tuned.mean.mean <= tuned.mean.high <= 100
    assert (base.coverage, tuned.coverage) == (1, 1)
    difference = result.difference
    assert difference.difference.mean == 40
    assert (difference.wins, difference.ties, difference.losses) == (2, 2, 0)
    assert judged.table["tuned_score"].tolist() == [100, 100, 100, 20]
    assert judged.table["tuned_reason"].tolist() == ["the same"] * 3 + ["another"]
    assert judged.table["base"].tolist() == ["wrong 1", "wrong 2", "right", "wrong 4"]
    assert judged.table["row"].tolist() == [1, 2, 3, 4]
    # Entry 3 has the same answer twice: one question.
    assert (result.num_asked, len(ask.server.questions)) == (7, 7)
    assert (result.prompt_tokens, result.reply_tokens) == (700, 70)


def test_settings_are_deterministic_and_sent(ask: Asking) -> None:
    ask(seed=7, max_reply_tokens=99)
    ask(seed=7, max_reply_tokens=99, protocol="openai")
    ollama, openai = ask.server.questions[0], ask.server.questions[-1]
    assert ollama["options"] == {
        "temperature": 0, "seed": 7, "num_predict": 99, "num_ctx": 4096,
    }  # fmt: skip
    assert ollama["stream"] is False
    assert (openai["temperature"], openai["seed"], openai["max_tokens"]) == (0, 7, 99)


def test_the_judge_sees_all_of_an_entry_and_not_whose_answer_it_is(ask: Asking) -> None:
    entry = Answer("Do {this}", "with </that>", "a {0} \u2028", "100 }{", "", True, 1)
    ask({"tuned": [entry]})
    [text] = ask.server.texts
    for tag, content in (
        ("instruction", "Do {this}"),
        ("input", "with </that>"),
        ("reference", "a {0} \u2028"),
        ("response", "100 }{"),
    ):
        assert part(text, tag) == content
    assert "tuned" not in text


def test_the_chapters_own_wording(ask: Asking) -> None:
    ask.server.reply = lambda messages: "85"
    judged = ask({"tuned": answers("x", "y")}, prompt="chapter7")
    assert judged.table["tuned_score"].tolist() == [85, 85]
    # Raschka, Build a Large Language Model (From Scratch), chapter 7: format_input and the query.
    assert ask.server.texts[1] == (
        "Given the input `Below is an instruction that describes a task. Write a response that "
        "appropriately completes the request.\n\n### Instruction:\nQuestion 1\n\n### Input:\n"
        "of this` and correct output `right`, score the model response `y` on a scale from 0 to "
        "100, where 100 is the best score. Respond with the integer number only."
    )


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429),
        Fault(status=500),
        Fault(status=503, body="<html>busy</html>"),
        Fault(cut=30),
        Fault(cut=0),
        Fault(drop=True),
        Fault(seconds=0.6),
    ],
    ids=["429", "500", "503", "cut", "empty", "dropped", "slow"],
)
def test_what_may_pass_is_asked_again(ask: Asking, protocol: str, fault: Fault) -> None:
    ask.server.faults.extend([fault, fault])
    slow = fault.seconds > 0
    result = ask(protocol=protocol, timeout=0.3 if slow else 60.0).result
    assert (result.num_asked, result.num_failed) == (7, 0)
    assert result.sets["tuned"].coverage == 1
    assert len(ask.server.questions) - 7 == len(ask.waits)
    assert len(ask.waits) == 2 or (slow and len(ask.waits) > 2)  # on a slow machine others too


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_retry_after_is_waited_for(ask: Asking, protocol: str) -> None:
    ask.server.faults.append(Fault(status=429, headers={"Retry-After": "7"}))
    ask(protocol=protocol)
    assert ask.waits == [7]


def test_retry_after_is_not_waited_for_hours(ask: Asking) -> None:
    ask.server.faults.append(Fault(status=429, headers={"Retry-After": "86400"}))
    with pytest.raises(TwoleversError, match=r"answers 429: .* asks to wait 86,400 s"):
        ask()
    assert ask.waits == []
    ask.server.faults.append(Fault(status=429, headers={"Retry-After": "300"}))
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    ask.server.faults.append(Fault(status=503, headers={"Retry-After": date}))
    ask()
    assert ask.waits == [120, 0]


def test_without_retry_after_the_waits_grow(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    ask.server.faults.extend([Fault(status=500)] * 5)
    ask()
    assert ask.waits == sorted(set(ask.waits))
    assert len(ask.waits) == 5


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_a_server_that_fails_always_ends_it_after_one_question(ask: Asking, protocol: str) -> None:
    ask.server.always = Fault(status=500)
    with pytest.raises(TwoleversError, match=r"gives no reply: answers 500: .*out of order"):
        ask(protocol=protocol)
    assert len(ask.server.questions) == 6


def test_a_server_that_goes_ends_it_and_the_rest_is_asked_later(ask: Asking) -> None:
    many: Sets = {"tuned": answers(*(f"answer {i}" for i in range(40)))}
    seen: list[object] = []

    def reply(messages: list[dict[str, str]]) -> str:
        seen.append(messages)
        if len(seen) >= 10:
            ask.server.always = Fault(status=502)
        return "Score: 50"

    ask.server.reply = reply
    with pytest.raises(TwoleversError, match="judgements are kept; the same command asks only"):
        ask(many)
    ask.server.reply = lambda messages: "Score: 50"
    ask.server.always = None
    asked_before = len(ask.server.questions)
    result = ask(many).result
    assert result.num_kept + result.num_asked == 40
    # What the server was answering when it went may be lost: one question a connection.
    on_their_way = JudgeOptions().concurrency
    assert 10 - on_their_way <= result.num_kept <= 10 + on_their_way
    asked_again = len(ask.server.questions) - asked_before
    assert result.num_asked <= asked_again <= result.num_asked + on_their_way


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_a_broken_connection_is_named(ask: Asking, protocol: str) -> None:
    ask.server.always = Fault(reset=True)
    with pytest.raises(TwoleversError, match=r"cannot be reached \(\w.*\)\. Nothing is judged"):
        ask(protocol=protocol)


def test_a_judge_that_scores_nothing_shows_a_reply(ask: Asking) -> None:
    ask.server.reply = lambda messages: "It is\x1b[2J right, I think."
    result = ask().result
    assert result.unscored_reply == "It is [2J right, I think."
    assert "--judge-model" in result.advice
    assert "--max-reply-tokens" in result.advice


def test_an_empty_reply_is_shown_as_such(ask: Asking) -> None:
    ask.server.reply = lambda messages: ""
    assert ask().result.unscored_reply == "(nothing)"


def test_no_advice_where_some_answers_are_scored(ask: Asking) -> None:
    replies = iter(["Score: 50", "no", "no"])
    ask.server.reply = lambda messages: next(replies, "Score: 60")
    result = ask(concurrency=1).result
    assert sum(of_set.num_unscored for of_set in result.sets.values()) == 1
    assert (result.unscored_reply, result.advice) == ("no", "")


def test_a_judge_that_is_silent_until_the_limit_is_told_of(ask: Asking) -> None:
    ask.server.always = Fault(seconds=30)
    result = ask(max_seconds=1).result
    assert result.stopped == "the time limit of 1 s"
    assert "no reply until then" in result.advice


def test_one_question_that_is_refused_does_not_end_it(ask: Asking) -> None:
    sets: Sets = {"tuned": answers("right", "right ", "right", "wrong")}
    ask.server.faults.extend([Fault(), Fault(status=400, body='{"error": "too long"}')])
    result = ask(sets, concurrency=1).result
    assert (result.num_failed, result.sets["tuned"].num_scored) == (1, 3)
    assert result.sets["tuned"].num_unscored == 0  # it was never judged
    again = ask(sets, concurrency=1).result
    assert (again.num_asked, again.num_kept, again.num_failed) == (1, 3, 0)


def test_a_first_question_that_is_refused_does_not_end_it(ask: Asking) -> None:
    sets: Sets = {"tuned": answers("right", "right ", "right", "wrong")}
    ask.server.faults.append(Fault(status=400, body='{"error": "too long"}'))
    assert ask(sets).result.sets["tuned"].num_scored == 3


def test_a_judge_that_refuses_everything_is_asked_three_times(ask: Asking) -> None:
    ask.server.always = Fault(status=400, body='{"error": "not today"}')
    with pytest.raises(TwoleversError, match="not today"):
        ask(protocol="openai")
    assert len(ask.server.questions) == 3


def test_a_model_that_wants_the_newer_name_of_a_limit_gets_it(ask: Asking) -> None:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    ask.server.faults.append(Fault(status=400, body=json.dumps({"error": {"message": said}})))
    result = ask(protocol="openai", max_reply_tokens=50).result
    assert result.num_failed == 0
    assert [q.get("max_completion_tokens") for q in ask.server.questions] == [None, *[50] * 7]
    assert "max_tokens" not in ask.server.questions[-1]


STREAMED = [
    '{"message": {"role": "assistant", "content": "Score"}, "done": false}',
    '{"message": {"content": ": 3"}, "done": false}',
    '{"message": {"content": "0"}, "done": true, "prompt_eval_count": 5, "eval_count": 2}',
]
EVENTS = [
    ": OPENROUTER PROCESSING",
    'data: {"choices": [{"delta": {"content": "Score: 3"}}]}',
    'data: {"choices": [{"delta": {"content": "0"}}]}',
    'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}',
    "data: [DONE]",
]
FINISHED = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}'
OTHERS = [{"type": "output_text", "text": {"value": "Score: 3"}}, "0"]
PARTS = [{"type": "thinking", "thinking": "Score: 80"}, {"type": "text", "text": "Score: 30"}]


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        ("ollama", "\n".join(STREAMED)),
        ("ollama", '{"message": {"thinking": "Score: 80", "content": "Score: 30"}}'),
        ("ollama", '\ufeff{"message": {"content": "Score: 30"}}'),
        ("openai", "\n\n".join(EVENTS)),
        ("openai", "\n\n".join([*EVENTS[:-2], FINISHED])),
        ("openai", ': wait\n\n{"choices": [{"message": {"content": "Score: 30"}}]}'),
        ("openai", json.dumps({"choices": [{"message": {"content": PARTS}}]})),
        ("openai", json.dumps({"choices": [{"message": {"content": PARTS[:1] + OTHERS}}]})),
        ("openai", json.dumps({"choices": [{"message": {"content": {"score": 30}}}]})),
        (
            "openai",
            '{"choices": [{"message": {"reasoning_content": "Score: 80", "content": "Score: 30 '
            '\\ud83d"}}], "usage": [], "error": null}',
        ),
    ],
    ids=[
        "lines",
        "thinking",
        "mark",
        "events",
        "finished",
        "late",
        "parts",
        "others",
        "object",
        "half a character",
    ],
)
def test_every_form_of_a_reply_is_read(ask: Asking, protocol: str, text: str) -> None:
    ask.server.faults.append(Fault(text=text))
    judged = ask({"tuned": answers("x")}, protocol=protocol)
    assert judged.table["tuned_score"].tolist() == [30]
    assert judged.result.num_failed == 0
    assert ask({"tuned": answers("x")}, protocol=protocol).result.num_kept == 1


@pytest.mark.parametrize("text", ["\n".join(STREAMED[:2]), "\n\n".join(EVENTS[:3]), "[" * 9999])
def test_half_a_stream_is_no_reply(ask: Asking, text: str) -> None:
    ask.server.faults.append(Fault(text=text))
    judged = ask({"tuned": answers("x")})
    assert (judged.table["tuned_score"].tolist(), len(ask.waits)) == ([20], 1)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(text="<html><body>Sign in</body></html>"), "a page for a browser: Sign in; give"),
        (Fault(text='{"error": "model \'llama3\' not found"}'), "--judge-model 'llama3'"),
        (Fault(text='{"error": {"code": 402, "message": "no"}}'), "has no credit left: no"),
        (Fault(status=402, body="pay"), "has no credit left: pay"),
        (Fault(status=307, headers={"Location": "https://x.y/v1"}), "sends on to https://x.y/v1"),
    ],
    ids=["page", "no model", "no credit", "402", "redirect"],
)
@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_what_no_second_time_helps_is_said_at_once(
    ask: Asking, protocol: str, fault: Fault, said: str
) -> None:
    ask.server.always = fault
    with pytest.raises(InputError, match=re.escape(said)):
        ask(protocol=protocol)
    assert (len(ask.server.questions), ask.waits) == (1, [])


def test_an_error_that_came_as_a_success_may_pass(ask: Asking) -> None:
    limited = '{"error": {"code": 429, "message": "slow down"}}'
    ask.server.faults.extend([Fault(text=limited), Fault(text='{"choices": null}')])
    assert ask(protocol="openai").result.num_failed == 0
    assert len(ask.waits) == 2


def test_a_model_that_is_being_loaded_is_waited_for(ask: Asking) -> None:
    ask.server.faults.append(Fault(status=503, body='{"error": {"message": "Loading model"}}'))
    ask.server.faults.append(Fault(text='{"message": {"content": ""}, "done_reason": "load"}'))
    ask.server.faults.append(Fault(status=503, headers={"Retry-After": "nan"}))
    assert ask().result.num_failed == 0
    assert ask.waits[:2] == [15, 15]
    assert 0 <= ask.waits[2] < 5


def test_settings_that_are_not_taken_are_left_out(ask: Asking) -> None:
    said = '{"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"]}]}'
    ask.server.faults.append(Fault(status=422, body=said))
    ask.server.faults.append(Fault(status=400, body="'temperature' does not support 0"))
    assert ask(protocol="openai").result.num_failed == 0
    assert len(ask.server.questions) == 9
    assert not {"seed", "temperature"} & set(ask.server.questions[-1])
    assert ask.server.questions[-1]["max_tokens"] == 256


@pytest.mark.parametrize(
    ("protocol", "end"),
    [
        ("openai", ""),
        ("openai", "/"),
        ("openai", "/v1/chat/completions"),
        ("ollama", "/v1/"),
        ("ollama", "/api/chat"),
    ],
)
def test_an_address_is_taken_as_people_give_it(ask: Asking, protocol: str, end: str) -> None:
    assert ask(protocol=protocol, url=ask.server.url + end).result.num_asked == 7


def test_a_key_with_signs_that_no_key_has_is_not_shown(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOLEVERS_JUDGE_KEY", "sécret")
    with pytest.raises(InputError, match="holds signs that no key has") as raised:
        ask()
    assert "sécret" not in str(raised.value)
    monkeypatch.setenv("TWOLEVERS_JUDGE_KEY", "sk-12345")
    for status in (400, 401, 500):
        ask.server.always = Fault(status=status, body="the key sk-12345 is wrong")
        with pytest.raises(TwoleversError, match=r"the key \(TWOLEVERS_JUDGE_KEY\) is wrong"):
            ask(protocol="openai")
    ask.server.always = None
    ask.server.keys.clear()
    monkeypatch.setenv("TWOLEVERS_JUDGE_KEY", "secret-123\n")
    ask()
    assert ask.server.keys == {"secret-123"}


def test_a_proxy_that_cannot_be_used_is_said(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:1")
    with pytest.raises(InputError, match="its proxy or certificates cannot be used"):
        ask(url="http://judge.invalid")


def test_a_reply_that_dribbles_ends_by_the_limit(ask: Asking) -> None:
    """Each part comes in time, the whole never does."""

    def dribble(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(9999)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
            while True:
                connection.sendall(b" ")
                time.sleep(0.02)

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = listening.accept()[0]
                threading.Thread(target=dribble, args=[connection], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=[listening], daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(TwoleversError, match="gives no reply: does not answer in time"):
            ask(url=url, timeout=0.1)


def test_a_key_taken_back_half_way_says_what_is_kept(ask: Asking) -> None:
    ask.server.faults.extend([Fault(), Fault(), *[Fault(status=403, body="no")] * 9])
    with pytest.raises(TwoleversError, match="2 judgements are kept") as raised:
        ask(concurrency=1)
    assert "TWOLEVERS_JUDGE_KEY" in str(raised.value)


@pytest.mark.parametrize(
    "reply", ["no number at all", "Score: 120", "Score: -3", "8/10", "", "1,5", "between 3 and 4"]
)
def test_no_number_is_asked_once_more_and_then_unscored(ask: Asking, reply: str) -> None:
    def judge(messages: list[dict[str, str]]) -> str:
        return reply if "Question 1" in messages[0]["content"] else "Score: 60"

    ask.server.reply = judge
    judged = ask({"tuned": answers("x", "y", "z")}, concurrency=1)
    tuned = judged.result.sets["tuned"]
    assert tuned.mean
    assert tuned.mean.mean == 60  # not counted as 0
    assert (tuned.num_scored, tuned.num_unscored) == (2, 1)
    assert tuned.coverage == pytest.approx(2 / 3)
    assert judged.table["tuned_score"].isna().tolist() == [False, True, False]
    assert len(ask.server.questions) == 4
    twice = ask.server.questions[2]["messages"]
    assert [message["role"] for message in twice] == ["user", "assistant", "user"]
    assert "held no score" in twice[2]["content"]
    ask({"tuned": answers("x", "y", "z")}, concurrency=1)
    assert len(ask.server.questions) == 4  # judged, if without a number: not asked for ever


def test_a_number_given_at_the_second_time_counts(ask: Asking) -> None:
    ask.server.reply = lambda messages: "well" if len(messages) == 1 else "Score: 30"
    result = ask({"tuned": answers("x")}).result
    assert result.sets["tuned"].mean
    assert result.sets["tuned"].mean.mean == 30
    assert (result.prompt_tokens, result.reply_tokens) == (200, 20)


def test_without_any_number_there_is_no_mean(ask: Asking) -> None:
    ask.server.reply = lambda messages: "fine"
    result = ask().result
    assert result.sets["tuned"].mean is None
    assert result.difference is None
    assert result.sets["tuned"].coverage == 0


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_a_model_that_is_not_there_costs_one_request(ask: Asking, protocol: str) -> None:
    with pytest.raises(InputError, match="--judge-model 'llama9'") as raised:
        ask(protocol=protocol, model="llama9")
    assert len(ask.server.questions) <= 1
    if protocol == "ollama":
        assert f"it has {MODEL}" in str(raised.value)
        assert "ollama pull llama9" in str(raised.value)
    else:
        assert "model 'llama9' not found" in str(raised.value)
    assert ask.waits == []


@pytest.mark.parametrize("protocol", ["ollama", "openai"])
def test_no_server_there(ask: Asking, protocol: str) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody is there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=r"--judge-url .*: no server answers there"):
            ask(protocol=protocol, url=url)
    assert ask.waits == []


def test_a_key_is_needed_and_never_kept(
    ask: Asking, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ask.server.key = "secret-123"
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai-alone")
    with pytest.raises(InputError, match="TWOLEVERS_JUDGE_KEY") as raised:
        ask(protocol="openai")
    assert ask.server.questions == []
    assert "of-openai-alone" not in ask.server.keys
    monkeypatch.setenv("TWOLEVERS_JUDGE_KEY", "secret-123")
    judged = ask(protocol="openai")
    kept = "".join(f.read_text(encoding="utf-8") for f in ask.folder.iterdir())
    for text in (kept, judged.result.model_dump_json(), str(raised.value)):
        assert "secret-123" not in text
        assert "of-openai-alone" not in text


@pytest.mark.parametrize("end", ["/v1", "/v1?key=pass-word", "[::1"])
def test_a_password_in_an_address_is_neither_taken_nor_shown(ask: Asking, end: str) -> None:
    address = ask.server.url.removeprefix("http://") if end != "[::1" else ""
    with pytest.raises(InputError, match="TWOLEVERS_JUDGE_KEY") as raised:
        ask(protocol="openai", url=f"http://me:pass-word@{address}{end}")
    assert "pass-word" not in str(raised.value)
    assert not ask.folder.exists()


def test_a_key_for_what_stands_before_ollama(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOLEVERS_JUDGE_KEY", "secret-123")
    ask()
    assert ask.server.keys == {"secret-123"}


def test_a_missing_key_for_openai_itself_is_said_before_anything_is_asked(ask: Asking) -> None:
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        ask(protocol="openai", url=None, model="gpt-x")


def test_all_that_is_wrong_with_the_options_is_said_at_once(ask: Asking) -> None:
    with pytest.raises(InputError) as raised:
        ask(protocol="openai", url="ftp://x", model=None, prompt="scord", max_cost=1.0)
    where = [problem.where for problem in raised.value.problems]
    assert where == ["--judge-prompt", "--judge-model", "--judge-url", "--max-cost"]
    assert "did you mean 'scored'" in str(raised.value)


def test_no_more_at_once_than_asked_for(ask: Asking) -> None:
    ask.server.seconds = 0.03
    many: Sets = {"tuned": answers(*(f"answer {i}" for i in range(12)))}
    ask(many, concurrency=3)
    assert ask.server.most_at_once == 3


def test_tokens_are_limited_and_the_rest_is_asked_later(ask: Asking) -> None:
    many: Sets = {"tuned": answers(*(f"answer {i}" for i in range(10)))}
    result = ask(many, concurrency=1, max_tokens=330).result
    assert result.stopped == "the limit of 330 tokens"
    assert (result.num_asked, len(ask.server.questions)) == (3, 3)  # 110 each
    assert result.sets["tuned"].coverage == pytest.approx(0.3)
    result = ask(many, concurrency=1).result
    assert (result.num_kept, result.num_asked, result.stopped) == (3, 7, "")


def test_cost_is_limited_and_said(ask: Asking) -> None:
    many: Sets = {"tuned": answers(*(f"answer {i}" for i in range(10)))}
    priced = {"price_in": 1000.0, "price_out": 10_000.0}  # 0.1 and 0.1 a question
    result = ask(many, concurrency=1, max_cost=0.5, **priced).result
    assert result.stopped == "the cost limit of 0.5"
    assert result.cost == pytest.approx(0.6)
    assert result.num_asked == 3


def test_tokens_that_the_server_does_not_count_are_counted_here(ask: Asking) -> None:
    ask.server.usage = False
    result = ask(protocol="openai").result
    longest = sum(len(text.encode()) for text in ask.server.texts)
    assert longest / 4 < result.prompt_tokens < longest


def test_time_is_limited_and_the_rest_is_asked_later(ask: Asking) -> None:
    many: Sets = {"tuned": answers(*(f"answer {i}" for i in range(10)))}
    ask.server.faults.extend([Fault(), Fault(), Fault(seconds=30), Fault(seconds=30)])
    result = ask(many, concurrency=2, max_seconds=1.5).result
    assert result.stopped == "the time limit of 1.5 s"
    assert result.num_asked == 2
    assert ask(many).result.num_asked == 8


def test_interrupted_and_asked_again(ask: Asking) -> None:
    many: Sets = {"tuned": answers(*(f"answer {i}" for i in range(20)))}
    seen: list[str] = []

    def reply(messages: list[dict[str, str]]) -> str:
        seen.append(messages[0]["content"])
        return "Score: 50"

    ask.server.reply = reply

    class Stop(Silent):
        def advance(self, done: int, **figures: float) -> None:
            if done == 8:
                raise KeyboardInterrupt

    told = JudgeOptions(url=ask.server.url, ask_twice=0, concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        judge_answers(many, told, folder=ask.folder, progress=Stop())
    assert len(seen) == 8
    result = judge_answers(many, told, folder=ask.folder, progress=Silent()).result
    assert (result.num_kept, result.num_asked) == (8, 12)
    assert len(seen) == len(set(seen)) == 20


def test_a_line_that_a_kill_cut_off_is_asked_again(ask: Asking) -> None:
    ask()
    [file] = ask.folder.glob("*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole[:-25])
    assert ask().result.num_asked == 1
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if _is_json(line)]) == 7
    assert ask().result.num_asked == 0


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"max_reply_tokens": 100},
        {"prompt": "chapter7"},
        {"model": MODEL},
        {"protocol": "openai"},
    ],
    ids=str,
)
def test_another_judge_asks_anew(ask: Asking, change: dict[str, Any]) -> None:
    ask()
    assert ask(**change).result.num_kept == 0
    assert ask(concurrency=1, timeout=9.0, max_tokens=10**9).result.num_asked == 0  # the same


def test_a_model_pulled_anew_asks_anew(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask().result.judge.served == DIGEST
    monkeypatch.setattr("judge_server.DIGEST", "ff" * 32)
    assert ask().result.num_kept == 0


def test_an_answer_that_changed_is_judged_anew(ask: Asking) -> None:
    ask({"tuned": answers("x", "y")})
    result = ask({"tuned": answers("x", "z")}).result
    assert (result.num_kept, result.num_asked) == (1, 1)


def test_the_judges_own_spread(ask: Asking) -> None:
    counts: dict[str, int] = {}
    lock = threading.Lock()

    def unsteady(messages: list[dict[str, str]]) -> str:
        text = messages[0]["content"]
        with lock:
            counts[text] = counts.get(text, 0) + 1
            return f"Score: {50 if counts[text] == 1 else 54}"

    ask.server.reply = unsteady
    many: Sets = {"tuned": answers(*(f"answer {i}" for i in range(6)))}
    result = ask(many, ask_twice=3).result
    assert result.spread
    assert (result.spread.count, result.spread.mean_difference) == (3, 4)
    assert result.spread.largest == 4
    assert sorted(counts.values()) == [1, 1, 1, 2, 2, 2]
    assert result.sets["tuned"].mean
    assert result.sets["tuned"].mean.mean == 50  # the second times count for the spread alone
    assert ask(many, ask_twice=3).result.num_asked == 0


def preferring(choose: Callable[[str, str], str]) -> Callable[[list[dict[str, str]]], str]:
    def reply(messages: list[dict[str, str]]) -> str:
        text = messages[0]["content"]
        if "<response A>" not in text:
            return "Score: 50"
        shown = [
            re.search(rf"<response {x}>\n(.*?)\n</response {x}>", text, re.DOTALL) for x in "AB"
        ]
        return choose(*(found[1] for found in shown if found)) + "\nReason: so"

    return reply


def test_a_preference_holds_in_both_orders_or_is_a_tie(ask: Asking) -> None:
    """Each answer says what a judge makes of it; `first` is taken wherever it stands first."""
    sets: Sets = {
        "one": answers("good", "bad", "first", "same", "even", "odd"),
        "two": answers("bad", "good", "first!", "same", "even!", "odd!"),
    }

    def choose(a: str, b: str) -> str:
        if "first" in a:
            return "A"
        if "even" in a:
            return "tie"
        if "odd" in a:
            return "neither of them says anything"
        return "A" if a == "good" else "B"

    ask.server.reply = preferring(choose)
    judged = ask(sets, preferences=True)
    preference = judged.result.preference
    assert preference
    assert judged.table["preference"].tolist() == [
        "loss", "win", "flipped", "tie", "tie", "unscored",
    ]  # fmt: skip
    assert (preference.wins, preference.losses) == (1, 1)
    assert (preference.ties, preference.flipped, preference.num_unscored) == (3, 1, 1)
    about_same = [text for text in ask.server.texts if "<response A>\nsame" in text]
    assert about_same == []  # equal answers are a tie without a question


def test_nothing_to_judge(ask: Asking) -> None:
    with pytest.raises(InputError, match="there is no answer to judge"):
        ask({"tuned": []})
