"""What is found in a data set: counted by hand on small files, by brute force on mixed ones."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twolevers.data.batch import IGNORE_INDEX, collate
from twolevers.data.examples import example_of, shown, spread, visible
from twolevers.data.fetch import fetch_dataset
from twolevers.data.inspect import Dropped, Inspection, inspect
from twolevers.data.lengths import histogram
from twolevers.data.near import candidates, jaccard, near_pairs, shingles, signatures
from twolevers.data.row import Row
from twolevers.data.scripts import COMMON, SYMBOLS, ScriptCounter, script_of
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.errors import InputError
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.report.data_page import findings
from twolevers.settings import Home

WORDS = [
    "river", "stone", "glass", "winter", "paper", "silver", "garden", "bridge", "candle", "engine",
    "forest", "harbor", "island", "jacket", "kettle", "ladder", "market", "needle", "orange",
]  # fmt: skip


@pytest.fixture
def inspected(tmp_path: Path, home: Home) -> Any:
    def run(rows: list[Any], seed: int = 1, **options: Any) -> Inspection:
        path = tmp_path / "data.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        fetched = fetch_dataset(str(path), home, Silent())
        return inspect(fetched, DataOptions(**options), seed=seed, progress=Silent())

    return run


def sentence(number: int, length: int = 30) -> list[str]:
    """Words drawn by the number, none like another's."""
    return [random.Random(f"{number} {place}").choice(WORDS) for place in range(length)]


def row(words: list[str], output: str = "Yes, all of it.") -> dict[str, str]:
    return {"instruction": " ".join(words), "input": "", "output": output}


def test_counts_duplicates_and_leaks(inspected: Any) -> None:
    rows = [row(sentence(i)) for i in range(40)]  # 34 train, 4 test (35 to 38), 2 val (39, 40)
    rows[7] = rows[2]
    rows[36] = rows[4]
    rows[37] = row(sentence(5), output="No, none of it.")
    rows[39] = rows[6]
    near = sentence(8)
    near[15] = "lantern"
    rows[20] = row(near)
    near = sentence(9)
    near[-1] = "lantern"
    rows[35] = row(near)
    rows[10]["kind"] = rows[11]["kind"] = "k"
    rows[12]["input"] = "given"
    found = inspected(rows)
    assert (found.num_rows, found.num_faulty, found.empty_inputs) == (40, 0, 39)
    assert found.splits == {"train": 34, "val": 2, "test": 4}
    assert found.kinds == {"k": 2}
    assert found.duplicates.first == [[8, 3], [37, 5], [40, 7]]
    assert found.test_entries_in_training.first == [[37, 5]]
    assert found.test_prompts_in_training.first == [[38, 6]]
    assert found.val_entries_in_training.first == [[40, 7]]
    assert "row 37 (test)" in found.refusals[0]
    assert len(found.refusals) == 1
    assert inspected(rows, allow_leakage=True).refusals == []
    # What stands behind a faulty row keeps its number in the file.
    faulty = inspected([row(sentence(50), output=""), *rows]).refusals
    assert "row 38 (test)" in faulty[-1]
    assert "as row 6" in faulty[-1]
    nearly = {tuple(pair[:2]) for pair in found.near_duplicates.first}
    assert {(21, 9), (36, 10)} <= nearly <= {(21, 9), (36, 10), (38, 6)}
    leaks = [pair[:2] for pair in found.near_test_entries_in_training.first]
    assert [36, 10] in leaks
    assert [21, 9] not in leaks


def test_lengths_are_tiktokens(inspected: Any) -> None:
    rows = [row(sentence(i, 5 + i)) for i in range(20)]
    rows[3]["output"] = "word " * 300
    found = inspected(rows, max_length=100)
    prompt = (
        "Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n{}\n\n### Response:\n"
    )
    encode = get_tokenizer().encoding.encode_ordinary
    lengths = [
        len(encode(prompt.format(one["instruction"]))) + len(encode(one["output"])) + 1
        for one in rows
    ]
    assert found.lengths["longest"] == max(lengths) > 300
    assert found.lengths["shortest"] == min(lengths)
    assert found.lengths["median"] == np.median(lengths)
    assert found.lengths["total"] == sum(lengths)
    assert found.over_limit == sum(length > 100 for length in lengths)
    assert sum(found.histogram["counts"]) == 20


def test_faulty_and_too_small_files_are_inspected_all_the_same(inspected: Any) -> None:
    rows: list[Any] = [row(sentence(i)) for i in range(5)]
    found = inspected([*rows, {"instruction": "a", "output": ""}])
    assert (found.num_rows, found.num_faulty) == (6, 1)
    assert "row 6 '': output is empty" in found.refusals[0]
    assert "too few entries" in found.refusals[1]
    assert [example.row_number for example in found.examples] == [1, 2, 3, 4, 5]
    with pytest.raises(InputError, match="row 1 ''"):
        inspected([{"instruction": "a", "output": ""}])


def test_a_split_that_comes_out_empty_hides_nothing(inspected: Any) -> None:
    rows = [row(sentence(i)) for i in range(40)]  # 34 train, 4 test (35 to 38), 2 val (39, 40)
    for place in range(34, 38):
        rows[place] = row(sentence(place, 200))
    rows[3] = row(sentence(3), output="word " * 300)
    rows[39] = rows[6]
    found = inspected(rows, max_length=100)
    filled = "its prompt alone fills max_length (100 tokens)"
    assert found.dropped == [Dropped("test", filled, 4)]
    assert (found.over_limit, found.num_cut) == (5, 1)
    assert found.val_entries_in_training.first == [[40, 7]]
    assert found.test_entries_in_training.count == 0
    assert len(found.refusals) == 1
    assert "nothing is left of it: 4 rows dropped" in found.refusals[0]


def test_what_cannot_be_known_is_none(inspected: Any) -> None:
    rows = [row(sentence(i)) for i in range(5)]
    rows[4] = rows[0]
    found = json.loads(json.dumps(inspected(rows).as_dict()))
    assert "too few entries" in found["refusals"][0]
    assert found["duplicates"]["count"] == 1
    for name in ("dropped", "num_cut", "test_entries_in_training", "val_entries_in_training"):
        assert found[name] is None, name
    assert found["test_prompts_in_training"] is None
    assert found["near_test_entries_in_training"] is None
    said = list(findings(inspected(rows[:4])))
    assert said == ["Too few rows to say what would be dropped, cut, or stand in two splits."]


def test_joiners_are_seen_where_they_join_nothing() -> None:
    family, persian = "👨\u200d👩\u200d👧", "می\u200cخواهم"
    assert visible(family) == family
    assert visible(persian) == persian
    assert visible("a\u200db") == "a\\u200db"
    assert visible("\u200d") == "\\u200d"
    assert visible("👨\u200d") == "👨\\u200d"
    assert visible("ab\u202e👨") == "ab\\u202e👨"


def test_everything_is_json(inspected: Any) -> None:
    rows = [row(sentence(i)) for i in range(20)]
    rows[19] = rows[0]
    found = json.loads(json.dumps(inspected(rows).as_dict()))
    assert found["scripts"][0]["script"] == "Latin"
    assert found["duplicates"] == {"count": 1, "first": [[20, 1]]}


def test_histogram() -> None:
    assert histogram(np.array([3, 3, 4])) == {"edges": [3, 4], "counts": [2, 1]}
    assert histogram(np.array([7])) == {"edges": [7], "counts": [1]}
    long = histogram(np.array([*range(100)] * 10 + [5000]))
    assert long["edges"] == [*range(0, 100, 10)]
    assert long["counts"] == [100] * 9 + [101], "what is longer stands in the last bin"
    few = histogram(np.array([*range(50, 60)] * 5 + [3000, 1500]))
    assert few["edges"][0] >= 40
    assert max(few["edges"]) < 200, "two long rows don't press fifty into one bin"
    assert few["counts"][-1] == 2


def test_near_pairs_are_those_of_brute_force() -> None:
    # Families of one text with more and more words changed, from equal to unlike.
    texts = []
    for family in range(10):
        words = sentence(family, 100)
        for changes in range(7):
            changed = list(words)
            for place in range(changes):
                changed[place * 5] = f"changed{place}"
            texts.append(" ".join(changed))
    rows = [np.array(get_tokenizer().encode(text), np.uint16) for text in texts]
    lengths = np.array([len(ids) for ids in rows])
    minima = signatures(np.concatenate(rows), lengths)
    pairs = candidates(minima, np.arange(len(rows)))
    assert (pairs[:, 0] < pairs[:, 1]).all()
    found = near_pairs(pairs, minima, rows)
    everything = {
        later
        for earlier, later in itertools.combinations(range(len(rows)), 2)
        if jaccard_by_hand(rows[earlier], rows[later]) >= 0.7
    }
    assert everything, "the families hold near texts"
    assert {*found.rows[:, 1].tolist()} == everything
    for (one, other), alike in zip(found.rows.tolist(), found.similarity, strict=True):
        assert alike == pytest.approx(jaccard_by_hand(rows[one], rows[other]))


def jaccard_by_hand(one: np.ndarray, other: np.ndarray) -> float:
    first, second = (
        {tuple(ids[i : i + 3].tolist()) for i in range(max(len(ids) - 2, 1))}
        for ids in (one, other)
    )
    return len(first & second) / len(first | second)


def test_shingles_do_not_reach_from_row_to_row() -> None:
    ids = [[1, 2, 3, 4], [9], [2, 3, 4], [1, 2]]
    lengths = np.array([len(row) for row in ids])
    hashes, counts = shingles(np.array(list(itertools.chain(*ids)), np.uint16), lengths)
    assert counts.tolist() == [2, 1, 1, 1]
    assert len({*hashes.tolist()}) == 4
    assert hashes[1] == hashes[3], "tokens 2 to 4, wherever they stand"
    assert jaccard(np.array(ids[0]), np.array(ids[2])) == 0.5


def test_tokens_by_script() -> None:
    texts = ["Hello, world", "Привет", "日本語 😀", "naïve"]
    tokenizer = get_tokenizer()
    counter = ScriptCounter()
    ids, _ = tokenizer.encode_flat(texts)
    counter.add(texts, ids)
    counter.add([], np.empty(0, np.uint16))
    counts = {count.script: count for count in counter.counts()}
    assert {name: count.characters for name, count in counts.items()} == {
        "Latin": 15, "Cyrillic": 6, "CJK": 3, COMMON: 3, SYMBOLS: 1,
    }  # fmt: skip
    total = sum(len(tokenizer.encoding.encode_ordinary(text)) for text in texts)
    assert sum(count.tokens for count in counts.values()) == pytest.approx(total)
    russian = len(tokenizer.encoding.encode_ordinary("Привет"))
    assert counts["Cyrillic"].tokens == pytest.approx(russian)
    assert counts["Cyrillic"].tokens_per_character == pytest.approx(russian / 6)
    assert script_of("7") == script_of("€") == script_of("µ") == COMMON
    # As Unicode's property Script has them, not as their names begin.
    assert script_of("ª") == script_of("ℝ") == script_of("ⁿ") == "Latin"
    assert (script_of("々"), script_of("ー")) == ("CJK", "Katakana")
    assert script_of("\ufe0f") == SYMBOLS, "the selector behind an emoji"


def test_entries_that_tokenise_badly_come_first(inspected: Any) -> None:
    rows = [row(sentence(i)) for i in range(20)]
    rows[13] = row(["日本語"], output="日本語の文章です。" * 20)
    worst = inspected(rows).worst
    assert worst[0].row_number == 14
    assert worst[0].tokens_per_character > 1 > worst[1].tokens_per_character


@pytest.mark.parametrize("prompt_length", [0, 1, 3])
def test_an_example_marks_what_the_loss_takes(prompt_length: int) -> None:
    ids = [15496, 11, 995, 0, END_OF_TEXT]
    example = example_of(3, "train", Row(ids, prompt_length))
    # Target t is token t + 1.
    targets = collate([Row(ids, prompt_length)]).target_ids.tolist()
    supervised = [False] + [target != IGNORE_INDEX for target in targets]
    assert [token.kind != "ignored" for token in example.tokens] == supervised
    assert [token.text for token in example.tokens] == [
        "Hello",
        ",",
        " world",
        "!",
        "<|endoftext|>",
    ]
    assert example.tokens[-1].kind == "end"
    assert not example.is_cut
    assert example_of(3, "train", Row(ids[:-1])).is_cut


def test_every_token_can_be_seen() -> None:
    for token in get_tokenizer().encode("a\n\tb \u202e日 <|endoftext|>"):
        assert shown(token).replace("\n", "").replace("\t", "").isprintable()
    assert shown(198) == "⏎\n"
    assert "".join(map(shown, get_tokenizer().encode(" 😀"))) == r" \xf0\x9f\x98\x80"
    assert spread(3, 10) == [0, 1, 2]
    assert spread(100, 10) == [0, 11, 22, 33, 44, 55, 66, 77, 88, 99]
