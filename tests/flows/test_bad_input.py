"""What bad input gets: one error with every problem, exit status 2, no traceback, no open run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from command import Command

from flows import cli
from twolevers.settings import Home


def fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> str:
    monkeypatch.setattr(sys, "argv", ["twolevers", *arguments])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model", "gpt2-huge"], ["gpt2-huge", "gpt2-small (124M)", "gpt2-xl (1558M)"]),
        (["--model", "gpt2-smal"], ["did you mean 'gpt2-small'"]),
        (["--device", "tpu"], ["'tpu'", "cuda:7", "this machine has"]),
        (["--device", "cuda:7"], ["'cuda:7'", "choose one it has"]),
        (["--dataset", "embeded"], ["'embeded'", "did you mean 'embedded'"]),
        (["--dataset", "nowhere/data.json"], ["nowhere/data.json", "no such file"]),
        (["--dataset", "http://example.com/data.json"], ["http://example.com/data.json", "https"]),
        (["--prompt-style", "chatml"], ["'chatml'", "alpaca"]),
        (["--precision", "int8"], ["'int8'", "'float32'"]),
        (["--precision", "float16", "--device", "cpu"], ["float16", "choose float32 or bfloat16"]),
        (["--epochs", "0"], ["--epochs", "0", "greater than or equal to 1"]),
        (["--epochs", "two"], ["--epochs", "'two'", "integer"]),
        (["--batch-size", "0"], ["--batch-size"]),
        (["--learning-rate", "-1"], ["--learning-rate", "-1", "greater than 0"]),
        (["--learning-rate", "nan"], ["--learning-rate", "finite"]),
        (["--max-length", "1025"], ["--max-length 1025", "1024"]),
        (["--resume", "latest"], ["no run"]),
        (["--weights", "nowhere"], ["nowhere"]),
    ],
)
def test_one_clear_error(
    home: Home,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: list[str],
) -> None:
    message = fails(capsys, monkeypatch, "fine-tune", *arguments)
    for text in expected:
        assert text in message
    assert "Traceback" not in message
    assert not home.runs.exists()


def test_all_problems_at_once(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    message = fails(
        capsys, monkeypatch, "fine-tune", "--epochs", "0", "--batch-size", "0",
        "--learning-rate", "-1",
    )  # fmt: skip
    assert all(name in message for name in ("--epochs", "--batch-size", "--learning-rate"))
    message = fails(
        capsys, monkeypatch, "fine-tune", "--model", "x", "--device", "y", "--dataset", "z",
        "--epochs", "0",
    )  # fmt: skip
    assert all(f"'{value}'" in message for value in "xyz")
    assert "--epochs" in message


def test_a_home_that_cannot_be_written_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOLEVERS_HOME", "/dev/null/home")
    message = fails(capsys, monkeypatch, "runs")
    assert "/dev/null/home" in message
    assert "cannot be written to" in message


def test_a_prefect_server_that_does_not_answer(home: Home, command: Command) -> None:
    command.env["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    message = command.run("fine-tune", status=1)
    assert "http://127.0.0.1:9/api does not answer" in message
    assert "PREFECT_API_URL" in message


def test_environment_is_checked_as_the_command_line_is(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOLEVERS_EPOCHS", "0")
    assert "--epochs" in fails(capsys, monkeypatch, "fine-tune")


def test_choose_model_is_one_line(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.root / "settings.toml").write_text('CHOOSE_MODEL = "gpt2-huge"\n', encoding="utf-8")
    assert "gpt2-huge" in fails(capsys, monkeypatch, "fine-tune")
    (home.root / "settings.toml").write_text("CHOOSE_MODLE = 1\n", encoding="utf-8")
    assert "CHOOSE_MODLE" in fails(capsys, monkeypatch, "models")
    (home.root / "settings.toml").write_text("CHOOSE_MODEL = gpt2\n", encoding="utf-8")
    assert "settings.toml" in fails(capsys, monkeypatch, "models")


def test_faults_in_the_data_end_the_command(tmp_path: Path, command: Command) -> None:
    entries = [{"instruction": f"say {n}", "input": "", "output": str(n)} for n in range(30)]
    entries[6]["output"] = ""
    (tmp_path / "bad.json").write_text(json.dumps(entries), encoding="utf-8")
    message = command.run("fine-tune", "--dataset", "bad.json", status=2)
    assert "row 7" in message
    assert "Traceback" not in message
    assert command.statuses() == ["FAILED"]
