"""The chat in the terminal: lines in, answers out."""

from __future__ import annotations

import io
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights

from flows import cli
from flows.ask import checkpoint_of
from flows.serving import KEY_VARIABLE, Limits, _lines, serve
from twolevers.classification.model import HEAD_FILE
from twolevers.data.prompt import Entry, find_style
from twolevers.device import find_device
from twolevers.errors import InputError, Problem
from twolevers.generation.answerer import Answerer
from twolevers.models.weights import load_model
from twolevers.options import GenerationOptions
from twolevers.serving.engine import Engine
from twolevers.serving.served import ServedModel
from twolevers.serving.terminal import Chat
from twolevers.settings import Home
from twolevers.tracking.run_info import RunInfo

OPTIONS = GenerationOptions(max_new_tokens=6)


@pytest.fixture
def base_folder(tmp_path: Path) -> Path:
    return write_random_weights(tmp_path / "base", TINY, seed=8)


def answer(folder: Path, instruction: str, text: str = "", max_new_tokens: int = 6) -> str:
    """As `twolevers generate` gives it."""
    answerer = Answerer(folder, prompt_style="alpaca", device=find_device("cpu"))
    options = GenerationOptions(max_new_tokens=max_new_tokens)
    return answerer.answer([Entry(instruction, text, output="")], options, seed=0)[0]


def test_lines_are_answered_and_commands_obeyed(
    folder: Path, base_folder: Path, make_engine: Callable[..., Engine]
) -> None:
    opened: list[bool] = []

    def open_model(base: bool) -> ServedModel:
        opened.append(base)
        engine = make_engine(load_model(base_folder if base else folder))
        return ServedModel("base" if base else "tuned", engine, find_style("alpaca"), OPTIONS)

    out = io.StringIO()
    lines = ["", "Name a colour.\n", "   ", "/input red", "Opposite?", "Name a colour."]
    lines += ["/base", "Name a colour.", "/base", "/what", "/quit", "never asked"]
    Chat(open_model, base=False, out=out).run(lines)
    assert out.getvalue().split("\n") == [
        *answer(folder, "Name a colour.").split("\n"),
        *answer(folder, "Opposite?", "red").split("\n"),
        *answer(folder, "Name a colour.").split("\n"),
        "now asking base",
        *answer(base_folder, "Name a colour.").split("\n"),
        "now asking tuned",
        "there is no /what; /help says what there is",
        "",
    ]
    assert opened == [False, True]


def test_what_cannot_be_answered_ends_no_chat(
    folder: Path, make_engine: Callable[..., Engine]
) -> None:
    def open_model(base: bool) -> ServedModel:
        if base:
            raise InputError(Problem("--base", "x", "is not known", "name a run"))
        engine = make_engine(load_model(folder))
        return ServedModel("tuned", engine, find_style("alpaca"), OPTIONS)

    out = io.StringIO()
    Chat(open_model, base=False, out=out).run(["word " * 1100, "/base", "Name a colour.", "/help"])
    said = out.getvalue()
    assert "the model sees 1,024 at once" in said
    assert "--base 'x': is not known; name a run" in said
    assert answer(folder, "Name a colour.") in said
    assert "/input TEXT" in said


def test_ctrl_c_while_a_model_is_loaded_ends_no_chat_that_is_typed(
    folder: Path, make_engine: Callable[..., Engine]
) -> None:
    def open_model(base: bool) -> ServedModel:
        if base:
            raise KeyboardInterrupt
        return ServedModel("tuned", make_engine(load_model(folder)), find_style("alpaca"), OPTIONS)

    out = io.StringIO()
    Chat(open_model, base=False, out=out, typed=True).run(["/base", "Name a colour."])
    assert out.getvalue() == f" … cut\n{answer(folder, 'Name a colour.')}\n"
    with pytest.raises(KeyboardInterrupt):
        Chat(open_model, base=False, out=out).run(["/base"])


def test_a_pipe_is_utf_8_whatever_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    came = io.BytesIO("\ufeffGrüße?\r\n翻译".encode() + b"\xff\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(came, encoding="iso-8859-1"))
    assert list(_lines(typed=False)) == ["Grüße?\n", "翻译\ufffd\n"]
    monkeypatch.setattr(sys, "stdin", None)  # as after `<&-`
    assert list(_lines(typed=False)) == []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["serve", "--precision", "int8"], 2, "'int8'"),
        (["serve", "--device", "tpu"], 2, "this machine has"),
        (["serve", "--host", "203.0.113.9"], 2, "--host '203.0.113.9': is no address of"),
        (["chat", "--temperature", "nan"], 2, "--temperature"),
        (["chat", "--web"], 1, "-m pip install 'gradio>=6'"),
    ],
)
def test_bad_options_are_one_error_before_anything_is_loaded(
    home: Home,
    arguments: list[str],
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["twolevers", *arguments])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setitem(sys.modules, "gradio", None)  # as where the extra is not installed
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status
    assert said in capsys.readouterr().err
    assert not home.mlflow.exists()


def test_a_port_that_is_taken_is_named(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        monkeypatch.setattr(sys, "argv", ["twolevers", "serve", "--port", port])
        monkeypatch.setattr("signal.signal", lambda *_: None)
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code == 2
    assert f"port {port}: is taken by" in capsys.readouterr().err


def test_a_key_that_no_client_can_send_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "schlüssel")
    with pytest.raises(InputError, match=f"{KEY_VARIABLE}: holds characters that no HTTP header"):
        serve(
            "latest", base=False, host="127.0.0.1", port=0, limits=Limits(), grace=1.0,
            device="cpu", precision="float32",
        )  # fmt: skip


def test_a_classifier_answers_no_instructions(tmp_path: Path) -> None:
    """Its folder looks like a model's, and has a head beside it."""
    (tmp_path / HEAD_FILE).touch()
    info = RunInfo(run_id=None, name="classifier", checkpoint=tmp_path)
    with pytest.raises(InputError, match="classifies texts, it answers no instructions; ask it"):
        checkpoint_of(info, "classifier")
