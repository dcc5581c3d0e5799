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
