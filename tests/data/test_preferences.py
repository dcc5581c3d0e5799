"""Preference files as data to fine-tune on: the chosen answer is learned, whatever its shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from twolevers.data.fetch import fetch_dataset
from twolevers.data.inspect import inspect
from twolevers.data.prompt import Entry, Turn
from twolevers.data.read import Entries
from twolevers.errors import InputError
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.report.data_page import findings
from twolevers.serving.preferences import Preference, keep_preference
from twolevers.settings import Home


def said(*turns: Turn) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in turns]


USER, CHOSEN, REJECTED = ("user", "2 + 2?"), ("assistant", "4"), ("assistant", "5")
EARLIER: tuple[Turn, ...] = (("user", "Hi."), ("assistant", "Hello."))
PLAIN = Entry("2 + 2?", "", "4")
HUMAN = "\n\nHuman: Hi.\n\nAssistant: Hello.\n\nHuman: 2 + 2?\n\nAssistant:"
ROWS: dict[str, tuple[dict[str, Any], Entry]] = {
    "texts": ({"prompt": "2 + 2?", "chosen": "4", "rejected": "5"}, PLAIN),
    "answers that are JSON themselves": (
        {"prompt": "2 + 2?", "chosen": '[{"sum": 4}]', "rejected": "5"},
        Entry("2 + 2?", "", '[{"sum": 4}]'),
    ),
    "messages of prompt and answer": (
        {"prompt": said(USER), "chosen": said(CHOSEN), "rejected": said(REJECTED)},
        PLAIN,
    ),
    "whole conversations (UltraFeedback)": (
        {
            "prompt": "2 + 2?",
            "chosen": said(*EARLIER, USER, CHOSEN),
            "rejected": said(*EARLIER, USER, REJECTED),
            "messages": said(*EARLIER, USER, CHOSEN),
        },
        Entry("2 + 2?", "", "4", "", EARLIER),
    ),
    "text of whole conversations (HH-RLHF)": (
        {"chosen": f"{HUMAN} 4", "rejected": f"{HUMAN} 5"},
        Entry("2 + 2?", "", "4", "", EARLIER),
    ),
    "HH-RLHF with its prompt apart": (
        {"prompt": HUMAN, "chosen": " 4", "rejected": " 5"},
        Entry("2 + 2?", "", " 4", "", EARLIER),
    ),
    "a system message and a question": (
        {"system": "Be brief.", "question": "2 + 2?", "chosen": "4", "rejected": "5"},
        Entry("2 + 2?", "", "4", "", (("system", "Be brief."),)),
    ),
    "ShareGPT's, one message each": (
        {
            "conversations": [{"from": "human", "value": "2 + 2?"}],
            "chosen": {"from": "gpt", "value": "4"},
            "rejected": {"from": "gpt", "value": "5"},
        },
        PLAIN,
    ),
}


def entries_of(path: Path) -> list[Entry]:
    entries = Entries(path, {})
    found = [entry for _, entry in entries]
    entries.check()
    assert entries.shape.name == "preferences"
    return found


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
@pytest.mark.parametrize("name", ROWS)
def test_the_chosen_answer_is_learned(tmp_path: Path, name: str, form: str) -> None:
    row, entry = ROWS[name]
    path = tmp_path / "data"
    if form == "json":
        path.write_text(json.dumps([row, row]), encoding="utf-8")
    elif form == "csv":
        cells = {k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()}
        pd.DataFrame([cells, cells]).to_csv(path, index=False)
    else:
        pd.DataFrame([row, row]).to_parquet(path)
    assert entries_of(path) == [entry, entry]


def test_our_own_choices_are_learned_by_their_instruction(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "preferences.jsonl"
    for number in range(12):
        keep_preference(
            path,
            Preference(
                prompt="### Instruction: as rendered for another model",
                chosen=f"good {number}",
                rejected="bad",
                chosen_model="tuned",
                rejected_model="base",
                instruction=f"Do {number}.",
                input="with this" if number else "",
            ),
        )
    found = entries_of(path)
    assert found[:2] == [Entry("Do 0.", "", "good 0"), Entry("Do 1.", "with this", "good 1")]
    fetched = fetch_dataset(str(path), home, Silent())
    seen = inspect(fetched, DataOptions(), seed=1, progress=Silent())
    assert (seen.shape, seen.refusals) == ("preferences (instruction, input, output=chosen)", [])
    assert any("chosen answers are learned" in line for line in findings(seen))


def test_faults_of_preferences_are_named(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"prompt": "a", "chosen": None, "rejected": "x"},
        {"prompt": None, "chosen": "b", "rejected": "x"},
        {"prompt": said(USER), "chosen": None, "rejected": "x"},
        {"prompt": said(USER), "chosen": said(USER), "rejected": "x"},
        {"prompt": "a", "chosen": ["b"], "rejected": "x"},
        {"prompt": "a", "chosen": "[{'role': 'assistant', 'content': 'b'}]", "rejected": "x"},
    ]
    path = tmp_path / "data"
    path.write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        entries_of(path)
    lines = [line.removeprefix("data, ").split(";")[0] for line in str(caught.value).splitlines()]
    assert lines == [
        "row 1: chosen is null",
        "row 2: prompt is null",
        "row 3: message 2 is empty",
        "row 4 '2 + 2?': ends with a user message, not with an answer",
        "row 5 ['b']: chosen is a list, not text",
        "row 6 \"[{'role': 'assistant', 'content': 'b'}]\": is text, but no JSON list of messages",
    ]
    path.write_text(json.dumps([{"chosen": "b", "rejected": "x"}, {"chosen": "", "rejected": "x"}]))
    with pytest.raises(
        InputError, match=r"row 1: has no user message[^\n]*\n[^\n]*row 2: message 1"
    ):
        entries_of(path)
