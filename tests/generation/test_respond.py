"""The stage `generate`, from a tokenised folder to the file of answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from helpers import TINY, write_random_weights

from twolevers.data.prompt import Entry, alpaca
from twolevers.data.tokenise import tokenise
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.device import find_device
from twolevers.errors import TwoleversError
from twolevers.files import sha256_of
from twolevers.generation.answers import read_answers
from twolevers.generation.generate import generate
from twolevers.generation.respond import respond
from twolevers.models.catalog import GPT2Config
from twolevers.models.weights import load_model, save_model
from twolevers.options import DataOptions, GenerationOptions
from twolevers.progress import Silent
from twolevers.records import DatasetFile, Responses, ScoredSplit, TokenisedData
from twolevers.settings import Home

OPTIONS = GenerationOptions(max_new_tokens=6)


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def advance(self, done: int, **figures: float) -> None:
        assert figures["tokens_per_second"] >= 0
        self.done.append(done)


@pytest.fixture
def entries() -> list[dict[str, str]]:
    """40 entries: 34 train, 4 test, 2 val. The second of test is long, the third is no Latin."""
    rows = [
        {"instruction": f"Say {i}.", "input": "", "output": f"{i}", "kind": "saying"}
        for i in range(40)
    ]
    rows[35]["input"] = "word " * 100
    rows[36] |= {"instruction": "翻译\u2028😀", "kind": ""}
    return rows


@pytest.fixture
def data(entries: list[dict[str, str]], tmp_path: Path, home: Home) -> TokenisedData:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")
    dataset = DatasetFile(
        name="data.json",
        path=path,
        sha256=sha256_of(path),
        num_bytes=path.stat().st_size,
        verified="local file",
    )
    return tokenise(dataset, DataOptions(), seed=1, home=home, progress=Silent())


def answer_all(
    folder: Path,
    data: TokenisedData,
    output: Path,
    progress: Silent | None = None,
    split: ScoredSplit = "test",
) -> Responses:
    return respond(
        "base",
        folder,
        data,
        OPTIONS,
        config=None,
        device=find_device("cpu"),
        precision="float32",
        seed=1,
        output=output,
        progress=progress or Silent(),
        asked=split,
    )


def test_every_entry_of_the_test_split_is_answered_in_order(
    entries: list[dict[str, str]], data: TokenisedData, tmp_path: Path
) -> None:
    folder = write_random_weights(tmp_path / "weights", TINY)
    progress = Notes()
    responses = answer_all(folder, data, tmp_path / "run" / "base.jsonl", progress)

    tokenizer, model = get_tokenizer(), load_model(folder)
    lines = responses.path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    for number, (line, asked) in enumerate(zip(lines, entries[34:38], strict=True), start=35):
        stored = json.loads(line)
        prompt = tokenizer.encode(alpaca(Entry(**asked)))
        new_ids = generate(model, [prompt], OPTIONS)[0]
        assert stored == {
            **asked,
            "model_response": tokenizer.decode(new_ids).strip(),
            "ended": False,
            "row": number,
        }
    assert responses.path.is_absolute()
    assert responses.sha256 == sha256_of(responses.path)
    assert (responses.num_responses, responses.new_tokens) == (4, 24)
    assert progress.done == [1, 2, 3, 4]
    assert progress.notes == []
    assert [vars(answer) for answer in read_answers(responses)] == [*map(json.loads, lines)]
    assert answer_all(folder, data, tmp_path / "again.jsonl").sha256 == responses.sha256


@pytest.mark.parametrize(
    ("split", "rows"), [("all", [*range(1, 41)]), ("train", [*range(1, 35)]), ("val", [39, 40])]
)
def test_another_split_is_answered_where_it_is_asked_for(
    data: TokenisedData, tmp_path: Path, split: ScoredSplit, rows: list[int]
) -> None:
    folder = write_random_weights(tmp_path / "weights", TINY)
    found = read_answers(answer_all(folder, data, tmp_path / "a.jsonl", split=split))
    assert [answer.row for answer in found] == rows


def test_a_model_that_ends_at_once_has_answered(data: TokenisedData, tmp_path: Path) -> None:
    folder = write_random_weights(tmp_path / "weights", TINY)
    model = load_model(folder)
    with torch.no_grad():  # the end of text is likelier than anything else everywhere
        model.ln_f.weight.zero_()
        model.ln_f.bias.copy_(model.wte.weight[END_OF_TEXT] * 100)
    ending = tmp_path / "ending"
    ending.mkdir()
    save_model(model, ending)
    answers = read_answers(answer_all(ending, data, tmp_path / "base.jsonl"))
    assert [(answer.model_response, answer.ended) for answer in answers] == [("", True)] * 4


def test_a_prompt_without_room_is_counted_as_not_answered(
    data: TokenisedData, tmp_path: Path
) -> None:
    short = GPT2Config(emb_dim=16, num_layers=1, num_heads=2, context_length=64)
    progress = Notes()
    responses = answer_all(
        write_random_weights(tmp_path / "weights", short), data, tmp_path / "a.jsonl", progress
    )
    answers = read_answers(responses)
    assert [len(answer.model_response) > 0 for answer in answers] == [True, False, True, True]
    assert not answers[1].ended
    assert len(progress.notes) == 1
    assert progress.notes[0].startswith("row 36: its prompt of ")
    assert progress.done == [2, 3, 4]


def test_a_failure_leaves_no_file(data: TokenisedData, tmp_path: Path) -> None:
    folder = write_random_weights(tmp_path / "weights", TINY)
    model = load_model(folder)
    with torch.no_grad():
        model.ln_f.bias.fill_(float("inf"))
    broken = tmp_path / "broken"
    broken.mkdir()
    save_model(model, broken)
    with pytest.raises(TwoleversError, match="no finite numbers"):
        answer_all(broken, data, tmp_path / "run" / "base.jsonl")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [None, "", "{", '{"row": 1}\n', "[]\n"])
def test_answers_that_are_not_whole_are_refused(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "base.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    responses = Responses(
        role="base", path=path, sha256="", num_responses=2, new_tokens=0, seconds=0
    )
    with pytest.raises(TwoleversError, match=r"base\.jsonl: .*generate them again"):
        read_answers(responses)
