"""`twolevers data` and `twolevers export` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ended_run import Page
from helpers import write_random_weights
from typer.testing import CliRunner

from flows.cli import app
from twolevers.errors import InputError
from twolevers.options import build_options
from twolevers.plan import flat_options
from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run

ROWS = [{"question": f"What is {i} + 1?", "answer": f"{i + 1}"} for i in range(40)]


def twolevers(*arguments: object, status: int = 0) -> str:
    ended = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert ended.exit_code == status, ended.output
    return ended.stdout


@pytest.fixture
def pairs(tmp_path: Path, home: Home) -> Path:
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    return path


def test_a_data_set_for_people_programs_and_as_a_page(pairs: Path, tmp_path: Path) -> None:
    text = twolevers("data", pairs, "--html", tmp_path / "page.html")
    assert "pairs (instruction=question, output=answer)" in text
    assert "█" in text
    assert "Written to" in text
    assert "pairs.json" in Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    found = json.loads(twolevers("data", pairs, "--json"))
    assert found["num_rows"] == 40
    mapped = twolevers("data", pairs, "--map", "instruction=answer output=question", "--json")
    assert json.loads(mapped)["shape"] == "pairs (instruction=answer, output=question)"


def test_columns_that_are_not_read_and_a_page_that_cannot_be_written(
    pairs: Path, tmp_path: Path
) -> None:
    rows = [{"id": "1", "[red]": "x", **row} for row in ROWS]
    pairs.write_text(json.dumps(rows), encoding="utf-8")
    text = " ".join(twolevers("data", pairs, "--html", tmp_path / "page.html").split())
    assert "not read 'id', '[red]'" in text
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "columns that are not read: 'id', '[red]'" in page
    with pytest.raises(InputError, match=r"^--html .*cannot be written"):
        twolevers("data", pairs, "--html", pairs / "page.html")
    with pytest.raises(InputError, match="is the data set itself"):
        twolevers("data", pairs, "--html", pairs)
    assert json.loads(pairs.read_text(encoding="utf-8")) == rows


def test_what_a_run_would_refuse_ends_with_1(pairs: Path) -> None:
    rows = [*ROWS[:36], ROWS[0], *ROWS[37:]]
    pairs.write_text(json.dumps(rows), encoding="utf-8")
    text = " ".join(twolevers("data", pairs, status=1).split())
    assert "A run would not start:" in text
    assert "row 37 (test): stands whole in training, as row 1" in text


def test_a_map_to_a_column_that_is_not_there(pairs: Path) -> None:
    with pytest.raises(InputError, match=r"'anwser': is not there \(did you mean 'answer'\?\)"):
        twolevers("data", pairs, "--map", "output=anwser")


def test_a_checkpoint_folder_is_exported(tmp_path: Path, home: Home) -> None:
    checkpoint = write_random_weights(tmp_path / "checkpoint")
    output = tmp_path / "exported"
    text = twolevers("export", "--run", checkpoint, "--output", output)
    assert (output / "model.safetensors").is_file()
    assert not (output / "chat_template.jinja").exists(), "it does not say how it was trained"
    assert "Written to" in text
    with pytest.raises(InputError, match="is there already"):
        twolevers("export", "--run", checkpoint, "--output", output)
    with pytest.raises(InputError, match=r"no such format \(did you mean 'gguf'\?\)"):
        twolevers("export", "--run", checkpoint, "--format", "guf", "--output", output, "--force")


def test_a_run_is_exported_with_its_prompt_style(tmp_path: Path, home: Home) -> None:
    params = flat_options(build_options({"model": "gpt2-nano", "prompt_style": "phi3"}, {}))
    with open_run(home=home, settings=Settings(), name="a run", params=params) as tracker:
        folder = write_random_weights(tracker.folder / "checkpoints" / "epoch-1")
        tracker.log_checkpoint(folder, step=1, metrics={})
    for run in (tracker.run_id, folder):
        output = tmp_path / "exported" / str(len(str(run)))
        twolevers("export", "--run", run, "--output", output)
        template = (output / "chat_template.jinja").read_text(encoding="utf-8")
        assert "<|user|>" in template
        assert "### Instruction" not in template


def test_a_home_that_the_shell_left_as_it_is(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path)
    twolevers("data", pairs, "--html=~/pages/page.html")
    assert (tmp_path / "mine" / "pages" / "page.html").is_file()
    assert not (tmp_path / "~").exists()
    ended = CliRunner().invoke(app, ["export", "--output=~no-such-user/x"])
    assert ended.exit_code == 2
    assert "~no-such-user/x" in ended.output
