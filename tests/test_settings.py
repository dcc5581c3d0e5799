"""Home folder and settings.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from twolevers import settings
from twolevers.errors import InputError
from twolevers.settings import Home, find_home, load_settings

CLONE = Path(__file__).resolve().parents[1]


def test_on_a_clone_the_home_is_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOLEVERS_HOME", raising=False)
    assert find_home() == CLONE


@pytest.mark.parametrize(("name", "is_home"), [("twolevers", True), ("twolevers-fetched", False)])
def test_what_a_worker_fetched_for_one_run_is_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_home: bool
) -> None:
    monkeypatch.delenv("TWOLEVERS_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    clone = tmp_path / name
    for folder in ("src/twolevers", "flows"):
        (clone / folder).mkdir(parents=True)
    (clone / "settings.toml").touch()
    monkeypatch.setattr(settings, "__file__", str(clone / "src" / "twolevers" / "settings.py"))
    assert find_home() == (clone if is_home else tmp_path / ".twolevers")


def test_the_shipped_line_chooses_nano(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOLEVERS_HOME", raising=False)
    settings = load_settings()
    assert (settings.choose_model, settings.choose_device) == ("gpt2-nano", "auto")


def test_environment_over_file_over_default(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().choose_model == "gpt2-nano"
    file = home.root / "settings.toml"
    file.write_text('CHOOSE_MODEL = "gpt2-small (124M)"\n', encoding="utf-8")
    assert load_settings().choose_model == "gpt2-small (124M)"
    monkeypatch.setenv("TWOLEVERS_CHOOSE_MODEL", "355M")
    assert load_settings().choose_model == "355M"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CHOOSE_MODEL = gpt2\n", "is no TOML in UTF-8"),
        ("CHOOSE_MODLE = 'gpt2'\n", "CHOOSE_MODLE.*known: CHOOSE_MODEL"),
        ("CHOOSE_MODEL = 3\n", "CHOOSE_MODEL 3.*string"),
    ],
)
def test_faults_in_the_file_are_told(home: Home, text: str, told: str) -> None:
    (home.root / "settings.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=told):
        load_settings()
