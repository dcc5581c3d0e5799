"""The embedded data set, and that pretraining told nothing that fine-tuning is scored on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from random import Random

import pytest

from twolevers.data.prompt import Entry, alpaca
from twolevers.embedded import DATASET_PATH
from twolevers.embedded.corpus import documents, held_out_texts
from twolevers.embedded.grammar import Action, Person
from twolevers.embedded.kinds import KINDS
from twolevers.embedded.vocabulary import VERBS
from twolevers.embedded.write_data import make_entries, render, split

ASKED = {kind.name for kind in KINDS if kind.asked}


@pytest.fixture(scope="module")
def entries() -> list[dict[str, str]]:
    return json.loads(DATASET_PATH.read_text(encoding="utf-8"))


def prompt(entry: dict[str, str]) -> str:
    return alpaca(Entry(**entry))


def test_shipped_file_is_what_the_code_writes() -> None:
    assert DATASET_PATH.read_text(encoding="utf-8") == render(make_entries())


def test_entries_have_the_chapters_form(entries: list[dict[str, str]]) -> None:
    assert len(entries) == 1_100
    for entry in entries:
        assert list(entry) == ["instruction", "input", "output", "kind"]
        assert entry["instruction"]
        assert entry["output"]
        assert all(value == value.strip() for value in entry.values())


def test_kinds(entries: list[dict[str, str]]) -> None:
    counts = Counter(entry["kind"] for entry in entries)
    assert len(counts) >= 20
    assert set(counts) == ASKED
    assert {"sentiment", "topic", "sentence_type"} <= set(counts), "classifying"
    assert {"capital", "opposite", "find_home"} <= set(counts), "answering queries"
    assert set(counts.values()) == {len(entries) // len(ASKED)}


def test_split_is_the_chapters_and_holds_every_kind(entries: list[dict[str, str]]) -> None:
    train, test, val = split(entries)
    assert (len(train), len(test), len(val)) == (935, 110, 55)
    assert train + test + val == entries
    for part in (train, test, val):
        assert {entry["kind"] for entry in part} == ASKED


def test_no_prompt_stands_twice(entries: list[dict[str, str]]) -> None:
    train, test, val = split(entries)
    seen = {prompt(entry) for entry in train}
    assert not seen & {prompt(entry) for entry in (*test, *val)}
    asked = Counter((entry["kind"], entry["input"]) for entry in entries if entry["input"])
    assert max(asked.values()) == 1, "an input asked about again in other words"


def test_corpus_holds_no_instruction_and_nothing_held_out(entries: list[dict[str, str]]) -> None:
    instructions = {entry["instruction"] for entry in entries}
    banned = held_out_texts()
    _, test, val = split(entries)
    facts = {kind.name for kind in KINDS if kind.facts}
    for entry in (*test, *val):
        if entry["input"]:
            assert entry["input"] in banned
        else:
            assert entry["kind"] in facts
    for text in islice(documents(seed=3), 20_000):
        assert "###" not in text
        assert "instruction" not in text
        assert "Below is" not in text
        assert not any(instruction in text for instruction in instructions), text
        assert not any(held in text for held in banned), text


def test_corpus_is_the_same_for_the_same_seed() -> None:
    first = list(islice(documents(seed=5), 200))
    assert first == list(islice(documents(seed=5), 200))
    assert first != list(islice(documents(seed=6), 200))


# fmt: off
HAND_WRITTEN = {
    "passive_voice": ("The cook washed the plates.", "The plates were washed by the cook."),
    "active_voice": ("The plates were washed by the cook.", "The cook washed the plates."),
    "past_tense": ("The cook washes the plates.", "The cook washed the plates."),
    "future_tense": ("The cook washes the plates.", "The cook will wash the plates."),
    "question": ("The cook washed the plates.", "Did the cook wash the plates?"),
    "negation": ("The cook washed the plates.", "The cook did not wash the plates."),
    "polite_request": ("Wash the plates.", "Could you please wash the plates?"),
}
# fmt: on


def test_every_form_of_one_action() -> None:
    act = Action(Person("the cook"), VERBS[0], "the plates")
    written = {
        "passive_voice": (act.past(), act.passive()),
        "active_voice": (act.passive(), act.past()),
        "past_tense": (act.present(), act.past()),
        "future_tense": (act.present(), act.future()),
        "question": (act.past(), act.question()),
        "negation": (act.past(), act.negated()),
        "polite_request": (act.command(), act.polite()),
    }
    assert written == HAND_WRITTEN


@pytest.mark.parametrize(
    ("person", "thing", "expected"),
    [
        (Person("Anna", "she"), "the letter", "She washed it."),
        (Person("the king", "he"), "the plates", "He washed them."),
    ],
)
def test_pronouns(person: Person, thing: str, expected: str) -> None:
    assert Action(person, VERBS[0], thing).with_pronouns() == expected


def test_plural_persons_take_the_plain_verb() -> None:
    act = Action(Person("the children", "they"), VERBS[0], "the car", where="at home")
    assert act.present() == "The children wash the car at home."
    assert act.passive() == "The car was washed by the children at home."


def answers(kind_name: str, draws: int = 3_000) -> dict[tuple[str, str], str]:
    """(source, subject) to result, of many examples of one kind."""
    [kind] = [kind for kind in KINDS if kind.name == kind_name]
    rng = Random(11)
    drawn = (kind.example(rng) for _ in range(draws))
    return {(example.source, example.subject): example.result for example in drawn}


def test_facts_are_true() -> None:
    capitals, opposites, legs, units = map(answers, ("capital", "opposite", "legs", "units"))
    assert capitals["", "Japan"] == "The capital of Japan is Tokyo."
    assert capitals["", "Norway"] == "The capital of Norway is Oslo."
    assert opposites["", "hot"] == "The opposite of hot is cold."
    assert opposites["", "cold"] == "The opposite of cold is hot."
    assert legs["", "a spider"] == "A spider has eight legs."
    assert legs["", "an ant"] == "An ant has six legs."
    assert units["", "3 hours"] == "3 hours are 180 minutes."
    assert units["", "2 kilometers"] == "2 kilometers are 2000 meters."


@pytest.mark.parametrize(
    ("kind_name", "expected"),
    [
        ("alphabetical", lambda source: ", ".join(sorted(source.split(", ")))),
        ("reverse_list", lambda source: ", ".join(source.split(", ")[::-1])),
        ("first_item", lambda source: source.split(", ")[0]),
        ("last_item", lambda source: source.split(", ")[-1]),
    ],
)
def test_lists_are_right(kind_name: str, expected: Callable[[str], str]) -> None:
    for (source, _), result in answers(kind_name, draws=200).items():
        assert result == expected(source)


def test_larger_number_is_right() -> None:
    for (source, _), result in answers("larger_number", draws=200).items():
        low, high = sorted(map(int, source.split(" and ")))
        assert result == f"{high} is larger than {low}."
