"""Rows as tokens: ids written out by hand, the ledger's account, splits, leaks, the cache."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twolevers.data import prompt as prompt_module
from twolevers.data import tokenise as tokenise_module
from twolevers.data.batch import IGNORE_INDEX, collate
from twolevers.data.prompt import PromptStyle, find_style
from twolevers.data.split import SPLITS, load_split, split_rows
from twolevers.data.tokenise import dropped_rows, tokenise
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.errors import InputError, TwoleversError
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.records import TokenisedData
from twolevers.settings import Home

# "Below is an instruction … request.\n\n### Instruction:\n", "\n\n### Response:\n" and so on,
# as GPT-2's vocabulary spells them.
PREAMBLE = [21106, 318, 281, 12064, 326, 8477, 257, 4876, 13, 19430, 257, 2882, 326, 20431]
PREAMBLE += [32543, 262, 2581, 13, 198, 198, 21017, 46486, 25, 198]
RESPONSE = [198, 198, 21017, 18261, 25, 198]
HELLO = [15496, 11, 995, 0]
HELLO_ROW = {"instruction": "Hello, world!", "input": "", "output": "Hello, world!"}
USER, ASSISTANT = [27, 91, 7220, 91, 29, 198], [198, 27, 91, 562, 10167, 91, 31175, 198]


def run(dataset: Any, home: Any, *, seed: int = 1, **options: Any) -> TokenisedData:
    return tokenise(dataset, DataOptions(**options), seed=seed, home=home, progress=Silent())


def ledger_of(data: TokenisedData) -> dict[str, Any]:
    return json.loads((data.path / "ledger.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("style", "prompt"),
    [("alpaca", PREAMBLE + HELLO + RESPONSE), ("phi3", USER + HELLO + ASSISTANT)],
)
@pytest.mark.parametrize("loss_on", ["everything", "response"])
def test_ids_and_masks_written_out(
    dataset: Any, home: Any, entries: Any, style: str, prompt: list[int], loss_on: str
) -> None:
    data = run(dataset([HELLO_ROW, *entries(19)]), home, prompt_style=style, loss_on=loss_on)
    split = load_split(data, "train")
    row = split[0]
    assert list(row.token_ids) == [*prompt, *HELLO, END_OF_TEXT]
    assert split.prompt_ids(0) == prompt
    batch = collate([row])
    assert batch.input_ids.tolist() == prompt + HELLO
    masked = len(prompt) - 1 if loss_on == "response" else 0
    expected = [IGNORE_INDEX] * masked + [*prompt[1 + masked :], *HELLO, END_OF_TEXT]
    assert batch.target_ids.tolist() == expected


def test_an_entry_comes_back_as_it_was(dataset: Any, home: Any, entries: Any) -> None:
    rows = entries(20)
    rows[17] |= {"input": "a\n\nb", "output": " ünï 😀 "}
    split = load_split(run(dataset(rows), home), "test")
    assert [split.row_number(i) for i in range(len(split))] == [18, 19]
    assert vars(split.entry(0)) == rows[17] | {"earlier": (), "options": ()}
    assert split[-1] == split[1]
    assert split[0:2] == [split[0], split[1]]
    with pytest.raises(IndexError):
        split[2]


def test_end_of_text_is_supervised_once_a_row(dataset: Any, home: Any, entries: Any) -> None:
    # trl 1623 and LLaMA-Factory 370: users write <|endoftext|>, and GPT-2 pads with it.
    rows = entries(20)
    rows[0] = {"instruction": "What is <|endoftext|>?", "output": "A token, <|endoftext|>."}
    for loss_on in ("everything", "response"):
        split = load_split(run(dataset(rows), home, loss_on=loss_on), "train")
        for row in split:
            assert list(row.token_ids).count(END_OF_TEXT) == 1
            assert row.token_ids[-1] == END_OF_TEXT
        targets = collate(split[:2]).target_ids.tolist()
        assert targets.count(END_OF_TEXT) == 2


def test_every_row_equals_its_parts_encoded_alone(dataset: Any, home: Any, entries: Any) -> None:
    texts = [" x", "\nx\n", "x\n\n", "\n\n### Response:\n", "a\n \n b", "  ", "'s", "\t", "é\u2028"]
    rows = [
        {
            "instruction": f"{text}{i}" if i % 2 else f"{i}{text}",
            "input": text,
            "output": text + ".",
        }
        for i, text in enumerate(texts * 3)
    ]
    for style in ("alpaca", "phi3"):
        data = run(dataset(rows), home, prompt_style=style, allow_leakage=True)
        for name in SPLITS:
            split = load_split(data, name)
            for i in range(len(split)):
                prompt, response = find_style(style).render(split.entry(i))
                plain = get_tokenizer().encoding.encode_ordinary
                assert split.prompt_ids(i) == plain(prompt)
                assert list(split[i].token_ids) == [*plain(prompt), *plain(response), END_OF_TEXT]


def test_several_batches_on_disk(
    dataset: Any, home: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenise_module, "_BATCH_ROWS", 7)
    data = run(dataset(entries(100)), home, split="shuffled")
    for name in SPLITS:
        split = load_split(data, name)
        for i in range(len(split)):
            number = split.row_number(i) - 1
            assert split.entry(i).instruction == f"Double {number}."
            assert get_tokenizer().decode(split.prompt_ids(i)).count(f"Double {number}.") == 1
        assert split.lengths.tolist() == [len(row.token_ids) for row in split]
    assert data.train_tokens == int(load_split(data, "train").lengths.sum())


def test_the_chapters_split() -> None:
    splits = split_rows(1100, seed=None)
    assert {name: len(rows) for name, rows in splits.items()} == {
        "train": 935,
        "val": 55,
        "test": 110,
    }
    order = np.concatenate([splits["train"], splits["test"], splits["val"]])
    assert order.tolist() == list(range(1100))


def test_a_shuffled_split_depends_on_the_seed_alone() -> None:
    first, again, other = (split_rows(50, seed=seed) for seed in (3, 3, 4))
    for name in SPLITS:
        assert first[name].tolist() == again[name].tolist()
    assert first["test"].tolist() != other["test"].tolist()
    assert sorted(np.concatenate(list(first.values())).tolist()) == list(range(50))


@pytest.mark.parametrize("count", [1, 9])
def test_too_few_to_split(dataset: Any, home: Any, entries: Any, count: int) -> None:
    with pytest.raises(InputError, match=rf"{count}: too few entries to split.*at least 10"):
        run(dataset(entries(count)), home)
    assert run(dataset(entries(10)), home).num_train == 8


def check_account(data: TokenisedData, ledger: dict[str, Any]) -> None:
    assert ledger["rows_read"] == data.num_rows
    parts = ("trained_on", "held_out", "dropped")
    assert ledger["rows_read"] == sum(ledger[part] for part in parts)
    assert ledger["dropped"] == sum(len(group["rows"]) for group in ledger["dropped_rows"])
    assert ledger["held_out"] == data.num_val + data.num_test


def test_rows_are_cut_and_those_without_an_answer_left_dropped(
    dataset: Any, home: Any, entries: Any
) -> None:
    rows = entries(20)
    long = "one two three four five six seven eight nine ten"
    rows[2]["output"] = long  # cut
    rows[4]["instruction"] = long  # no token of its answer left (llama-cookbook 133)
    rows[18]["instruction"] = long  # in the test split: it can't be answered
    # Others: 24 + 4 ("Double 0." and so on) + 6 of prompt, 1 of answer, 1 end of text.
    data = run(dataset(rows), home, max_length=38, loss_on="response")
    ledger = ledger_of(data)
    check_account(data, ledger)
    assert ledger["cut_rows"] == {"train": [3], "val": [], "test": []}
    assert [(group["split"], group["rows"]) for group in ledger["dropped_rows"]] == [
        ("train", [5]),
        ("test", [19]),
    ]
    assert (data.num_dropped, data.num_cut, data.num_train) == (2, 1, 16)
    train = load_split(data, "train")
    assert 5 not in [train.row_number(i) for i in range(len(train))]
    assert len(train[2].token_ids) == 38
    assert train[2].token_ids[-1] != END_OF_TEXT
    assert all(collate([row]).num_supervised > 0 for row in train)
    # With loss over everything the row still teaches its prompt; the test row stays out.
    ledger = ledger_of(run(dataset(rows), home, max_length=38))
    assert ledger["cut_rows"]["train"] == [3, 5]
    assert [group["rows"] for group in ledger["dropped_rows"]] == [[19]]


def test_nothing_left_to_train_on(dataset: Any, home: Any, entries: Any) -> None:
    with pytest.raises(InputError, match="train split: nothing is left of it: 17 rows dropped"):
        run(dataset(entries(20)), home, max_length=10, loss_on="response")
    assert list((home.cache / "tokenised").iterdir()) == []


def test_duplicates_are_counted_and_dropped_when_asked(
    dataset: Any, home: Any, entries: Any
) -> None:
    rows = entries(40)
    rows[5] = rows[3] | {"kind": "another"}
    rows[6] = rows[3]
    data = run(dataset(rows), home)
    assert (data.num_duplicates, data.num_dropped, data.num_train) == (2, 0, 34)
    assert ledger_of(data)["duplicates"] == {"count": 2, "first": [[6, 4], [7, 4]]}
    data = run(dataset(rows), home, drop_duplicates=True)
    ledger = ledger_of(data)
    check_account(data, ledger)
    assert ledger["dropped_rows"] == [
        {"split": "train", "reason": "repeats an earlier entry whole", "rows": [6, 7]}
    ]
    # Dropping moves no row to another split.
    assert load_split(data, "test").row_number(0) == 35


def test_test_entries_that_stand_in_training(dataset: Any, home: Any, entries: Any) -> None:
    rows = entries(40)
    rows[34] = rows[1]  # test begins at row 35
    rows[35] = rows[2] | {"output": "another"}
    rows[39] = rows[0]  # validation
    with pytest.raises(InputError, match=r"row 35 \(test\): stands whole in training, as row 2"):
        run(dataset(rows), home)
    assert list((home.cache / "tokenised").iterdir()) == []
    data = run(dataset(rows), home, allow_leakage=True)
    ledger = ledger_of(data)
    assert ledger["test_entries_in_training"] == {"count": 1, "first": [[35, 2]]}
    assert ledger["test_prompts_in_training"] == {"count": 1, "first": [[36, 3]]}
    assert ledger["val_entries_in_training"] == {"count": 1, "first": [[40, 1]]}
    assert (data.num_leaked, data.num_equal_prompts, data.num_test) == (1, 1, 4)
    # The same text cut differently between instruction and input is another prompt.
    rows[34] = {"instruction": "Double 1.", "input": "x", "output": "2"}
    assert run(dataset(rows), home).num_leaked == 0


def test_many_leaks_are_all_counted(dataset: Any, home: Any, entries: Any) -> None:
    rows = entries(300)
    rows[255:285] = rows[:30]
    with pytest.raises(InputError, match=r"10 more test rows do \(30 in all\)") as caught:
        run(dataset(rows), home)
    assert len(caught.value.problems) == 21


def test_a_style_without_its_marker_fails(
    dataset: Any, home: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # unsloth 2900
    style = PromptStyle("odd", "", lambda entry: entry.instruction, "### Response:\n")
    monkeypatch.setitem(prompt_module.PROMPT_STYLES, "odd", style)
    with pytest.raises(InputError, match="prompt style odd: response marker"):
        run(dataset(entries(20)), home, prompt_style="odd")
    with pytest.raises(InputError, match="no such prompt style"):
        run(dataset(entries(20)), home, prompt_style="none")


def test_the_cache_is_used_and_follows_content_and_settings(
    dataset: Any, home: Any, entries: Any, notes: Any
) -> None:
    file = dataset(entries(20))
    data = run(file, home)
    again = tokenise(file, DataOptions(), seed=2, home=home, progress=notes)
    assert again == data  # the seed means nothing to a split in file order
    assert notes.lines == [f"tokens of {file.name} taken from the cache"]
    changed = {
        run(file, home, prompt_style="phi3").sha256,
        run(file, home, loss_on="response").sha256,
        run(file, home, max_length=50).sha256,
        run(file, home, split="shuffled").sha256,
        run(file, home, split="shuffled", seed=2).sha256,
        run(dataset(entries(21)), home).sha256,
    }
    assert len(changed | {data.sha256}) == 7


def test_a_cache_that_was_damaged_is_made_again(dataset: Any, home: Any, entries: Any) -> None:
    file = dataset(entries(20))
    data = run(file, home)
    for name in ("rows.arrow", "train.npy", "record.json"):
        (data.path / name).write_bytes(b"half")
        assert run(file, home) == data
        assert len(load_split(data, "train")) == 17


def test_a_file_that_changes_meanwhile(dataset: Any, home: Any, entries: Any) -> None:
    file = dataset(entries(20))
    dataset(entries(30))
    with pytest.raises(InputError, match="changed while it was read"):
        run(file, home)


def test_several_at_once(dataset: Any, home: Any, entries: Any) -> None:
    file = dataset(entries(300))
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda _: run(file, home), range(4))
    assert others == [first] * 3
    assert [path.name for path in (home.cache / "tokenised").iterdir()] == [first.sha256]
    assert len(load_split(first, "train")) == 255


def test_a_home_that_cannot_be_written(dataset: Any, entries: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TwoleversError, match=r"cannot be written.*TWOLEVERS_HOME"):
        run(dataset(entries(20)), Home(tmp_path / "file"))


def test_tokenising_needs_no_pytorch() -> None:
    # 200 MiB of the 400 that a million entries may take.
    code = (
        "import sys, twolevers.data.tokenise, twolevers.data.fetch; print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_the_record_is_small(dataset: Any, home: Any, entries: Any, tmp_path: Path) -> None:
    data = run(dataset(entries(200)), home)
    assert len(data.model_dump_json()) < 10_000
    assert data.path.is_absolute()


@pytest.mark.parametrize("count", [1, 2, 12])
def test_all_of_it_to_be_scored(dataset: Any, home: Any, entries: Any, count: int) -> None:
    """One entry is enough, and one that stands there twice is no leak: nothing is trained."""
    rows = [*entries(count - 1), HELLO_ROW] if count < 12 else [*entries(10), HELLO_ROW, HELLO_ROW]
    file = dataset(rows)
    data, again = (
        tokenise(file, DataOptions(), seed=1, home=home, progress=Silent(), whole=True)
        for _ in range(2)
    )
    assert again == data
    assert (data.num_train, data.num_val, data.num_test) == (0, 0, count)
    assert [len(load_split(data, split)) for split in SPLITS] == [0, 0, count]
    assert [load_split(data, "all").row_number(i) for i in range(count)] == [*range(1, count + 1)]
    if count == 12:
        assert run(file, home, allow_leakage=True).path != data.path
    with pytest.raises(InputError, match="test split: nothing is left of it"):
        tokenise(file, DataOptions(max_length=2), seed=1, home=home, progress=Silent(), whole=True)


def test_what_was_left_out_is_told_by_its_reason(dataset: Any, home: Any, entries: Any) -> None:
    rows = [*entries(1), HELLO_ROW | {"instruction": "many " * 99}, HELLO_ROW, HELLO_ROW]
    options = DataOptions(max_length=60, drop_duplicates=True)
    data = tokenise(dataset(rows), options, seed=1, home=home, progress=Silent(), whole=True)
    dropped = {
        "repeats an earlier entry whole": 1,
        "its prompt alone fills max_length (60 tokens)": 1,
    }
    assert dropped_rows(data, "test") == dropped_rows(data, "all") == dropped
    assert (dropped_rows(data, "train"), data.num_test) == ({}, 2)
