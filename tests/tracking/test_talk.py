"""What `twolevers chat` and `serve` talk to: a run's model, its base, a checkpoint folder."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from helpers import TINY, write_random_weights

from flows.ask import find_asked
from flows.serving import chat
from twolevers.data.prompt import Entry
from twolevers.device import find_device
from twolevers.embedded import NANO_PATH
from twolevers.errors import InputError
from twolevers.files import write_json
from twolevers.generation.answerer import Answerer
from twolevers.options import FineTuneOptions, GenerationOptions
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store

ASKED = {"base": False, "device": "cpu", "precision": "float32"}


def answer(folder: Path, instruction: str) -> str:
    """As `twolevers generate` gives it."""
    answerer = Answerer(folder, prompt_style="alpaca", device=find_device("cpu"))
    options = GenerationOptions(max_new_tokens=5)
    return answerer.answer([Entry(instruction, "", output="")], options, seed=0)[0]


def test_a_checkpoint_is_asked_through_a_pipe(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(InputError, match="there is no run yet"):
        chat("latest", changes={}, **ASKED)
    folder = write_random_weights(tmp_path / "tiny", TINY)
    monkeypatch.setattr("sys.stdin", io.StringIO("\nName a colour.\n/base\nOpposite of red?"))
    chat(str(folder), changes={"max_new_tokens": 5}, **ASKED)
    assert capsys.readouterr().out.split("\n") == [
        *answer(folder, "Name a colour.").split("\n"),
        f"--base '{folder}': is a checkpoint of no run, its base is not known; name a run",
        *answer(folder, "Opposite of red?").split("\n"),
        "",
    ]


def test_a_run_has_a_tuned_model_and_a_base(home: Home, settings: Settings, store: Store) -> None:
    options = FineTuneOptions(model="gpt2-nano (7M)")
    with open_run(
        home=home, settings=settings, name="nano", params={"model": options.model}, tags={}
    ) as tracker:
        checkpoint = write_random_weights(tracker.folder / "checkpoints" / "epoch-2", TINY)
        write_json(tracker.folder / names.OPTIONS_FILE, options.model_dump())
        tracker.log_checkpoint(checkpoint, step=1, metrics={})
    tuned, base = (find_asked(tracker.run_id, base=is_base) for is_base in (False, True))
    assert (tuned.name, tuned.path) == (f"gpt2-nano-{tracker.run_id[:8]}", checkpoint)
    assert (base.name, base.path) == ("gpt2-nano", NANO_PATH)
