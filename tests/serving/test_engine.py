"""The engine: everyone's answer is their own, whoever else asks; nobody waits without an end."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gate import Gate

from twolevers.data.tokenizer import get_tokenizer
from twolevers.errors import InputError
from twolevers.generation.generate import complete
from twolevers.models.attention import causal_within
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions
from twolevers.serving.engine import (
    ClosingError,
    CutError,
    Engine,
    FullError,
    Piece,
    Request,
    Ticket,
)

GREEDY = GenerationOptions(max_new_tokens=20)
SECONDS = 120
"""That a slow, loaded machine may take for what takes none."""


class Reader:
    """One who asks and waits for pieces."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self.arrived: queue.SimpleQueue[Piece] = queue.SimpleQueue()
        self.ticket: Ticket = engine.submit(request, self.arrived.put)

    def all(self) -> tuple[str, Piece]:
        """The whole text and the last piece."""
        text = ""
        while True:
            piece = self.arrived.get(timeout=SECONDS)
            text += piece.text
            if piece.reason is not None:
                return text, piece

    @property
    def token_ids(self) -> list[int]:
        return self.ticket.running.completion.token_ids


def request(length: int, seed: int = 0, **changes: object) -> Request:
    chance = random.Random(length)
    prompt = tuple(chance.randrange(50_257) for _ in range(length))
    given = {name: changes.pop(name) for name in ("stop", "strip", "stop_id") if name in changes}
    return Request(prompt, GREEDY.model_copy(update=changes), seed=seed, **given)  # type: ignore[arg-type]


def wait_until(met: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def without_a_cache(model: GPT2, prompt: tuple[int, ...], count: int) -> list[int]:
    """The plain way: the whole sequence again for each token."""
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            hidden = model(torch.tensor(ids), torch.arange(len(ids)), causal_within([len(ids)]))
            ids.append(int(model.logits(hidden[-1]).argmax()))
    return ids[len(prompt) :]


def test_answers_equal_those_of_one_at_a_time_whoever_else_asks(
    model: GPT2, make_engine: Callable[..., Engine]
) -> None:
    """Each is asked while the one before it is under way: they join at different times."""
    engine = make_engine(max_batch=4)
    asked = [request(1 + 37 * i % 90, max_new_tokens=5 + 7 * i % 20) for i in range(14)]
    asked[3] = request(1020)  # runs into the end of the context
    readers: list[Reader] = []
    for one in asked:
        readers.append(Reader(engine, one))
        reader = readers[-1]
        wait_until(lambda reader=reader: len(reader.token_ids) >= 2)
    for one, reader in zip(asked, readers, strict=True):
        text, last = reader.all()
        expected = complete(model, [one.prompt], one.options)[0]
        assert reader.token_ids == expected.token_ids
        assert text == get_tokenizer().decode(expected.token_ids)
        assert last.new_tokens == len(expected.token_ids)
        assert last.reason == ("stop" if expected.ended else "length")
    assert len(readers[3].token_ids) == 4
    for one, reader in list(zip(asked, readers, strict=True))[:3]:
        plain = without_a_cache(model, one.prompt, len(reader.token_ids))
        assert reader.token_ids == plain


def test_few_who_ask_take_little_memory_however_many_may(
    model: GPT2, make_engine: Callable[..., Engine]
) -> None:
    reader = Reader(make_engine(max_batch=10**9), request(5))
    assert reader.all()[1].reason == "length"
    assert reader.token_ids == complete(model, [request(5).prompt], GREEDY)[0].token_ids


def test_everyone_is_answered_in_their_own_way(
    model: GPT2, make_engine: Callable[..., Engine], gate: Gate
) -> None:
    engine = make_engine(max_batch=8)
    ways = [{}, {"temperature": 0.7}, {"temperature": 1.2, "top_k": 50, "top_p": 0.9}]
    asked = [request(5 + i, seed=i, **ways[i % 3]) for i in range(8)]
    readers = [Reader(engine, one) for one in asked]
    gate.open()  # so that all are in one batch
    for one, reader in zip(asked, readers, strict=True):
        reader.all()
        expected = complete(model, [one.prompt], one.options, seed=one.seed)[0].token_ids
        assert reader.token_ids == expected


def test_the_models_own_end_and_a_stop_text_end_an_answer(
    model: GPT2, make_engine: Callable[..., Engine]
) -> None:
    full = complete(model, [request(9).prompt], GREEDY)[0].token_ids
    engine = make_engine()
    ended = Reader(engine, request(9, stop_id=full[6]))
    text, last = ended.all()
    assert (ended.token_ids, last.reason) == (full[: full.index(full[6])], "stop")
    whole = get_tokenizer().decode(full)
    stop = whole[11:14]
    text, last = Reader(engine, request(9, stop=("never said", stop))).all()
    assert (text, last.reason) == (whole[: whole.index(stop)], "stop")
    assert last.new_tokens < len(full)
    wait_until(lambda: engine.load == (0, 0))


def test_more_than_fit_are_refused_and_one_that_leaves_makes_room(
    gate: Gate, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine(max_batch=2, max_waiting=1)
    readers = [Reader(engine, request(4 + i)) for i in range(3)]
    with pytest.raises(FullError, match="2 requests are being answered and 1 wait"):
        Reader(engine, request(9))
    readers[2].ticket.cancel()
    gate.open()
    assert readers[2].all()[1].reason == "cancelled"
    assert readers[2].token_ids == []
    assert [reader.all()[1].new_tokens for reader in readers[:2]] == [20, 20]
    assert Reader(engine, request(9)).all()[1].reason == "length"


def test_a_cancelled_answer_leaves_the_batch_under_way(
    model: GPT2, gate: Gate, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine()
    stays, goes = Reader(engine, request(6)), Reader(engine, request(7, max_new_tokens=900))
    gate.let(6)
    wait_until(lambda: len(goes.token_ids) >= 2)
    goes.ticket.cancel()
    gate.open()
    assert goes.all()[1].reason == "cancelled"
    stays.all()
    assert stays.token_ids == complete(model, [request(6).prompt], GREEDY)[0].token_ids
    assert len(goes.token_ids) < 900


def test_time_is_up_for_who_runs_and_for_who_waits(
    gate: Gate, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine(max_batch=1, timeout=0.2)
    runs, waits = Reader(engine, request(5, max_new_tokens=1000)), Reader(engine, request(6))
    time.sleep(0.25)  # the limit itself
    gate.open()
    for reader in (runs, waits):
        last = reader.all()[1]
        assert last.reason == "timeout"
        assert "time limit of 0.2 s" in last.message
    assert engine.load == (0, 0)


def test_what_cannot_be_continued_is_refused_at_once(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    with pytest.raises(InputError, match="has 1,024 tokens, the model sees 1,024 at once"):
        Reader(engine, request(1024))
    with pytest.raises(InputError, match="holds no token"):
        Reader(engine, request(0))
    assert engine.load == (0, 0)


def test_a_failure_is_told_and_the_next_request_is_answered(
    folder: Path, make_engine: Callable[..., Engine]
) -> None:
    broken = load_model(folder)
    engine = make_engine(broken)
    right = broken.ln_f.bias.detach().clone()
    with torch.no_grad():
        broken.ln_f.bias.fill_(float("nan"))
    readers = [Reader(engine, request(5)), Reader(engine, request(6))]
    for reader in readers:
        last = reader.all()[1]
        assert last.reason == "failed"
        assert "no finite numbers" in last.message
    with torch.no_grad():
        broken.ln_f.bias.copy_(right)
    healed = Reader(engine, request(5))
    healed.all()
    assert healed.token_ids == complete(broken, [request(5).prompt], GREEDY)[0].token_ids


def test_closing_lets_running_answers_end_and_tells_who_waits(
    gate: Gate, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine(max_batch=1)
    runs, waits = Reader(engine, request(5)), Reader(engine, request(6))
    gate.let(3)
    wait_until(lambda: len(runs.token_ids) >= 2)
    closing = threading.Thread(target=engine.close, args=(SECONDS,))
    closing.start()
    wait_until(lambda: engine.is_closing)
    with pytest.raises(ClosingError):
        Reader(engine, request(7))
    gate.open()
    assert waits.all()[1].reason == "closing"
    last = runs.all()[1]
    assert (last.reason, last.new_tokens) == ("length", 20)
    closing.join(SECONDS)
    assert not closing.is_alive()


def test_closing_without_grace_cuts(gate: Gate, make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    reader = Reader(engine, request(5, max_new_tokens=1000))
    gate.let(4)
    wait_until(lambda: len(reader.token_ids) >= 2)
    closing = threading.Thread(target=engine.close)
    closing.start()
    wait_until(lambda: engine.is_closing)
    gate.open()
    assert reader.all()[1].reason == "closing"
    closing.join(SECONDS)


def test_a_stream_is_the_text_and_who_stops_reading_leaves(
    model: GPT2, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine()
    expected = complete(model, [request(8).prompt], GREEDY)[0].token_ids
    assert "".join(engine.stream(request(8))) == get_tokenizer().decode(expected)
    reading = engine.stream(request(8, max_new_tokens=1000))
    next(reading)
    reading.close()
    wait_until(lambda: engine.load == (0, 0))
    with pytest.raises(CutError, match="time limit"):
        list(make_engine(timeout=0.0).stream(request(8)))
