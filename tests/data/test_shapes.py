"""The shapes that data comes in: told by content, mapped by name, faults by row number."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from twolevers.data.batch import IGNORE_INDEX, collate
from twolevers.data.mapping import parse_map
from twolevers.data.prompt import Entry, find_style
from twolevers.data.read import Entries, read_entries
from twolevers.data.split import load_split
from twolevers.data.tokenise import tokenise
from twolevers.data.tokenizer import END_OF_TEXT, get_tokenizer
from twolevers.errors import InputError
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.settings import Home

PREAMBLE = (
    "Below is an instruction that describes a task. "
    "Write a response that appropriately completes the request."
)
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": "4"},
]
CHAT_ENTRY = Entry(
    "2 + 2?", "", "4", "", (("system", "Be brief."), ("user", "Hi."), ("assistant", "Hello."))
)
SHAREGPT = [
    {"from": {"user": "human", "assistant": "gpt"}.get(one["role"], one["role"]),
     "value": one["content"]}
    for one in CHAT
]  # fmt: skip


def entries_of(path: Path, mapping: str | None = None) -> tuple[str, list[Entry]]:
    entries = Entries(path, parse_map(mapping))
    found = [entry for _, entry in entries]
    entries.check()
    return str(entries.shape), found


def write(tmp_path: Path, rows: list[dict[str, Any]], form: str = "json") -> Path:
    """The same rows in every format, nested values as JSON text where there are only cells."""
    path = tmp_path / "data.any"
    if form == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif form == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        text = io.StringIO()
        table = csv.DictWriter(text, rows[0], delimiter="\t" if form == "tsv" else ",")
        table.writeheader()
        for row in rows:
            table.writerow({k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()})
        path.write_text("\ufeff" + text.getvalue(), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "tsv", "parquet"])
@pytest.mark.parametrize(
    ("row", "shape", "entry"),
    [
        (
            {"instruction": "a,\nb", "input": "c", "output": "d"},
            "alpaca (instruction, input, output)",
            Entry("a,\nb", "c", "d"),
        ),
        (
            {"prompt": "a", "completion": "b"},
            "pairs (instruction=prompt, output=completion)",
            Entry("a", "", "b"),
        ),
        (
            {"question": "a", "answer": "b", "id": "7"},
            "pairs (instruction=question, output=answer)",
            Entry("a", "", "b"),
        ),
        (  # Dolly's
            {"instruction": "a", "context": "c", "response": "b", "category": "qa"},
            "pairs (instruction, input=context, output=response)",
            Entry("a", "c", "b", "qa"),
        ),
        ({"text": "once\n\nupon"}, "text (text)", Entry("", "", "once\n\nupon")),
        ({"messages": CHAT}, "chat (messages)", CHAT_ENTRY),
        ({"conversations": SHAREGPT}, "chat (messages=conversations)", CHAT_ENTRY),
    ],
    ids=["alpaca", "completion", "answer", "dolly", "text", "chat", "sharegpt"],
)
def test_each_shape_in_each_format(
    tmp_path: Path, form: str, row: dict[str, Any], shape: str, entry: Entry
) -> None:
    assert entries_of(write(tmp_path, [row, row], form)) == (shape, [entry, entry])


@pytest.mark.parametrize(
    ("columns", "shape"),
    [
        ("instruction output messages prompt text", "alpaca"),
        ("messages prompt text", "chat"),
        ("prompt completion text", "pairs"),
        ("text id", "text"),
    ],
)
def test_what_several_shapes_fit(tmp_path: Path, columns: str, shape: str) -> None:
    row: dict[str, Any] = dict.fromkeys(columns.split(), "x") | {"messages": CHAT}
    if "messages" not in columns:
        del row["messages"]
    assert entries_of(write(tmp_path, [row]))[0].split()[0] == shape


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_a_map_names_fields(tmp_path: Path, form: str) -> None:
    rows = [{"frage": "a", "die antwort": "b", "dazu": "c", "art": "d", "regel": "Kurz."}] * 2
    path = write(tmp_path, rows, form)
    mapping = "instruction=frage output='die antwort' input=dazu kind=art system=regel"
    entry = Entry("a", "c", "b", "d", (("system", "Kurz."),))
    assert entries_of(path, mapping)[1] == [entry, entry]
    # One side is enough where the other has a name that is known.
    path = write(tmp_path, [{"question": "a", "reply": "b"}], form)
    assert entries_of(path, "output=reply")[1] == [Entry("a", "", "b")]
    path = write(tmp_path, [{"instruction": "a", "output": "b", "talk": CHAT}], form)
    assert entries_of(path, "messages=talk")[1] == [CHAT_ENTRY]


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_a_map_finds_columns_however_they_are_written(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, [{" Frage ": "a", "ANTWORT": "b"}] * 2, form)
    assert entries_of(path, "instruction=frage output=Antwort")[1] == [Entry("a", "", "b")] * 2
    assert entries_of(path, r"text='{{{frage}}}\n{antwort}'")[1] == [Entry("", "", "{a}\nb")] * 2
    # As it is written, a name goes first; else it must be clear which is meant.
    path = write(tmp_path, [{"Frage": "a", "frage": "c", "antwort": "b"}], form)
    assert entries_of(path, "instruction=frage output=antwort")[1] == [Entry("c", "", "b")]
    with pytest.raises(InputError, match="'FRAGE': is not there"):
        entries_of(path, "instruction=FRAGE output=antwort")


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_map_takes_a_template(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, [{"title": "T", "body": "B"}, {"title": "", "body": "{x}"}], form)
    found = entries_of(path, r"text='{title}\n\n{{{body}}}'")
    assert found[1] == [Entry("", "", "T\n\n{B}"), Entry("", "", "\n\n{{x}}")]
    path = write(tmp_path, [{"title": "T", "body": "B"}, {"title": " ", "body": ""}], form)
    with pytest.raises(InputError, match=r"row 2.*title"):
        entries_of(path, "text='{title}: {body}'")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("instruktion=question", "no such field (did you mean 'instruction'?)"),
        ("instruction", "is no field=column"),
        ("instruction=", "is no field=column"),
        ("", "names nothing"),
        ("text='", "no closing quotation"),
        ("input=a input=b", "input is mapped twice"),
        ("text=a output=b", "text and output belong to different shapes"),
        ("text=a system=b", "text and system belong to different shapes"),
        ("instruction=answer output=answer", "instruction and output are the same column"),
        ("text={a", "is no template"),
        ("text='{question} {answer:x}'", "is no template"),
        ("text='{question} {}'", "is no template"),
        ("output=answr", "'answr': is not there (did you mean 'answer'?)"),
        ("output=answer.text", "a field inside a column cannot be named"),
        ("output={answr}", "'answr': is not there (did you mean 'answer'?)"),
    ],
)
def test_a_map_that_means_nothing(tmp_path: Path, mapping: str, message: str) -> None:
    path = write(tmp_path, [{"question": "a", "answer": "b"}])
    with pytest.raises(InputError) as caught:
        entries_of(path, mapping)
    assert message in str(caught.value)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_columns_that_leave_it_open_or_say_nothing(tmp_path: Path, form: str) -> None:
    for row, message in (
        ({"prompt": "a", "question": "b", "answer": "c"}, '--map "instruction=prompt"'),
        ({"prompt": "a", "rejected": "b"}, '--map "instruction=prompt output=COLUMN"'),
        ({"text": "a", "role": "prompter", "parent_id": "1"}, "hold one message a row"),
        ({f"c{i}": "x" for i in range(30)} | {"query": "x"}, "'c19', 11 more: not Alpaca's"),
        ({"My Task": "a", "Answer": "b"}, '--map "instruction=COLUMN output=Answer"'),
        ({"task": "a", "input": "b", "output": "c"}, "column 'instruction': is missing"),
    ):
        with pytest.raises(InputError) as caught:
            entries_of(write(tmp_path, [row], form))
        assert message in str(caught.value)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_names_however_they_are_written(tmp_path: Path, form: str) -> None:
    kurz = (("system", "Kurz."),)
    row: dict[str, Any]
    for row, shape, entry in (
        (
            {"Instruction": "a", "Input": "c", "Output": "b"},
            "pairs (instruction=Instruction, input=Input, output=Output)",
            Entry("a", "c", "b"),
        ),
        (
            {"QUESTION": "a", " answer": "b", "Category": "k"},
            "pairs (instruction=QUESTION, output= answer, kind=Category)",
            Entry("a", "", "b", "k"),
        ),
        ({"Output": "x", "instruction": "a", "output": "b"}, "alpaca", Entry("a", "", "b")),
        ({"Text": "a"}, "text (text=Text)", Entry("", "", "a")),
        ({"Messages": CHAT}, "chat (messages=Messages)", CHAT_ENTRY),
        # Where nothing else could be the prompt, the input is.
        ({"id": "7", "input": "a", "output": "b"}, "pairs (instruction=in", Entry("a", "", "b")),
        ({"instruction": "a", "context": "c", "output": "b"}, "alpaca (", Entry("a", "c", "b")),
        (  # OpenOrca's
            {"system_prompt": "Kurz.", "question": "a", "response": "b"},
            "pairs (instruction=question, output=response, system=system_prompt)",
            Entry("a", "", "b", "", kurz),
        ),
    ):
        found = entries_of(write(tmp_path, [row, row], form))
        assert found[0].startswith(shape)
        assert found[1] == [entry, entry]


def test_a_map_beside_columns_that_are_known(tmp_path: Path) -> None:
    path = write(tmp_path, [{"instruction": "a", "input": "c", "output": "b"}], "csv")
    for mapping in ("instruction=output", "output=instruction", "input=output"):
        with pytest.raises(InputError, match="and output are the same column"):
            entries_of(path, mapping)
    assert entries_of(path, "instruction=input")[1] == [Entry("c", "", "b")], "not twice"
    path = write(tmp_path, [{"My Task": "a", "reply": "b"}], "csv")
    with pytest.raises(InputError, match=r"'task': is not there.*'My Task', 'reply'"):
        entries_of(path, "instruction=task output=reply")
    with pytest.raises(InputError, match='output=COLUMN", "messages=COLUMN" for chats'):
        entries_of(write(tmp_path, [{"c1": "a", "c2": "b"}]))
    with pytest.raises(InputError, match="quote a name that has spaces"):
        entries_of(path, "instruction=My Task output=reply")


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_columns_that_are_not_read_are_known(tmp_path: Path, form: str) -> None:
    row = {"id": "1", "question": "a", "answer": "b", "kind": "k", "label": "x"}
    assert Entries(write(tmp_path, [row], form), {}).unread == ["id", "label"]


def test_a_column_that_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("question,answer,id,id,answer\na,b,1,2,c\n", encoding="utf-8")
    with pytest.raises(InputError, match="column 'answer': stands twice"):
        entries_of(path)
    path.write_text("question,answer,id,id\na,b,1,2\n", encoding="utf-8")
    assert entries_of(path)[1] == [Entry("a", "", "b")]


def chat(*turns: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for role, text in turns]} | more


def test_turns_of_one_role_in_a_row_are_one(tmp_path: Path) -> None:
    row = chat(("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d"))
    assert entries_of(write(tmp_path, [row]))[1] == [Entry("a\n\nb", "", "c\n\nd")]


def test_content_in_parts_and_a_system_column(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    row = chat(("user", parts), ("assistant", "c"), system="Be kind.", category="talk")
    kind = Entry("a\nb", "", "c", "talk", (("system", "Be kind."),))
    assert entries_of(write(tmp_path, [row]))[1] == [kind]
    own = chat(("developer", "Be rude."), ("user", "a"), ("model", "c"), system="Be kind.")
    assert entries_of(write(tmp_path, [own]))[1][0].earlier == (("system", "Be rude."),)


def test_blank_system_messages_and_other_names_of_roles_and_parts(tmp_path: Path) -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": None, "text": "b"}]
    rows: list[Any] = [
        chat(("system", ""), ("user", parts), ("assistant", "c")),
        {"conversations": [{"from": "bing", "value": "Hello."}, {"from": "human", "value": "a\nb"},
                           {"from": "bard", "value": "c"}]},
    ]  # fmt: skip
    assert entries_of(write(tmp_path, rows[:1]))[1] == [Entry("a\nb", "", "c")]
    greeted = Entry("a\nb", "", "c", "", (("assistant", "Hello."),))
    assert entries_of(write(tmp_path, rows[1:]))[1] == [greeted]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_prompt_and_completion_as_messages(tmp_path: Path, form: str) -> None:
    row = {"prompt": CHAT[:-1], "completion": CHAT[-1:]}
    shape, found = entries_of(write(tmp_path, [row], form))
    assert (shape, found) == ("pairs (instruction=prompt, output=completion)", [CHAT_ENTRY])


def test_every_fault_of_a_chat_is_named(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "x"}}
    rows: list[Any] = [
        chat(("user", "a"), ("assistant", "b")),
        chat(("user", "a")),
        chat(("assistant", "b")),
        chat(("user", "a"), ("tool", "{}"), ("assistent", "b")),
        chat(("user", "  "), ("assistant", None)),
        chat(("user", [image]), ("assistant", 5)),
        chat(("user", "a"), ("system", "s"), ("assistant", "b")),
        {"messages": []},
        {"messages": None},
        {"messages": "hello"},
        {"messages": ["hello", {"content": "x"}]},
        {"messages": [{"role": "user", "content": "a"},
                      {"role": "assistant", "content": None, "tool_calls": [{}]}]},
        {"messages": [{"role": "user", "content": "a"},
                      {"role": "assistant", "content": "b", "weight": 0}]},
        chat(("system", " ")),
        {"messages": [{"speaker": "user", "said": "a"}]},
    ]  # fmt: skip
    with pytest.raises(InputError) as caught:
        entries_of(write(tmp_path, rows))
    lines = [line.removeprefix("data.any, ") for line in str(caught.value).splitlines()]
    expected = [
        "row 2 'a': ends with a user message, not with an answer",
        "row 3: has no user message before its answer",
        "row 4 'tool': message 2 is a tool's",
        "row 4 'assistent': message 3 has a role that is not known (did you mean 'assistant'?)",
        "row 5 '  ': message 1 is empty",
        "row 5: message 2 is empty",
        "row 6 {'type': 'image_url', 'image_url': {'url': 'x'}}: message 1 holds a part that is",
        "row 6 5: message 2 has content that is a number, not text",
        "row 7: has a system message behind its beginning",
        "row 8: has no messages",
        "row 9: messages is null",
        "row 10 'hello': is text, but no JSON list",
        "row 11 'hello': message 1 is text, not an object",
        "row 11: message 2 has no role; its keys are 'content'",
        "row 12: message 2 calls a tool",
        "row 13 0: ends with an answer of weight 0",
        "row 14: has no messages",
        "row 15: message 1 has no role; its keys are 'speaker', 'said'",
    ]
    assert [line[: len(start)] for line, start in zip(lines, expected, strict=True)] == expected


def test_faults_of_pairs_and_text_have_their_columns(tmp_path: Path) -> None:
    rows = [{"question": "a", "answer": "b"}, {"question": " ", "answer": None}, {"question": 3}]
    with pytest.raises(InputError) as caught:
        entries_of(write(tmp_path, rows))
    text = str(caught.value)
    assert "row 2 ' ': question is empty" in text
    assert "row 2: answer is null" in text
    assert "row 3 3: question is a number" in text
    assert "row 3: has no answer; its keys are 'question'" in text
    nothing = '[{"question": "a", "answer": "b"}, {"question": "a", "answer": NaN}, {"x": "y"}]'
    (path := tmp_path / "x.json").write_text(nothing, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        entries_of(path)
    assert "row 2: answer is NaN" in str(caught.value)
    assert "row 3: has no question and no answer; its keys are 'x'" in str(caught.value)
    with pytest.raises(InputError, match=r"row 2 '': text is empty"):
        entries_of(write(tmp_path, [{"text": "a"}, {"text": ""}], "csv"))


def test_a_chat_is_rendered_by_the_style() -> None:
    assert find_style("alpaca").render(CHAT_ENTRY) == (
        "Be brief.\n\n### Instruction:\nHi.\n\n### Response:\nHello.\n\n"
        "### Instruction:\n2 + 2?\n\n### Response:\n",
        "4",
    )
    assert find_style("phi3").render(CHAT_ENTRY)[0] == (
        "<|system|>\nBe brief.\n<|user|>\nHi.\n<|assistant|>:\nHello.\n"
        "<|user|>\n2 + 2?\n<|assistant|>:\n"
    )
    one = Entry("2 + 2?", "", "4", "", (("user", "Hi."), ("assistant", "Hello.")))
    assert find_style("alpaca").render(one)[0].startswith(f"{PREAMBLE}\n\n### Instruction:\nHi.")


def test_a_chat_and_a_text_as_tokens(dataset: Any, home: Home) -> None:
    def run(rows: list[Any], **options: Any) -> Any:
        fetched = dataset(rows)
        return tokenise(fetched, DataOptions(**options), seed=1, home=home, progress=Silent())

    encode = get_tokenizer().encode
    after = (("assistant", "b"), ("user", "c"), ("assistant", "d<|endoftext|>"))
    chats = [chat(("user", f"a{i}"), *after) for i in range(20)]
    data = run(chats, loss_on="response")
    assert data.shape == "chat (messages)"
    split = load_split(data, "train")
    assert split.entry(3).earlier == (("user", "a3"), ("assistant", "b"))
    target = collate([split[3]]).target_ids.tolist()
    answer = [*encode("d<|endoftext|>"), END_OF_TEXT]
    assert target[-len(answer) :] == answer
    assert set(target[: -len(answer)]) == {IGNORE_INDEX}

    data = run([{"text": f"tale {i}"} for i in range(20)], loss_on="response")
    split = load_split(data, "test")
    assert list(split[0].token_ids) == [*encode("tale 17"), END_OF_TEXT]
    assert IGNORE_INDEX not in collate([split[0]]).target_ids.tolist()
    assert split.prompt_ids(0) == [END_OF_TEXT], "a text is begun behind an end of text"
    assert data.num_equal_prompts == 0


def test_the_map_is_in_the_cache_key_as_it_is_meant(dataset: Any, home: Home) -> None:
    rows = [{"question": f"a{i}", "answer": "b", "other": "c"} for i in range(20)]
    fetched = dataset(rows)

    def path(mapping: str | None) -> Path:
        options = DataOptions(map=mapping)
        return tokenise(fetched, options, seed=1, home=home, progress=Silent()).path

    one = path("instruction=question output=other")
    assert path(" output='other'   instruction=question") == one
    assert path(None) != one


def test_a_long_file_is_not_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for i in range(5000):
            file.write(json.dumps({"question": f"a{i}", "answer": "b"}) + "\n")
        file.write("{broken")
    rows = read_entries(path)
    assert next(rows) == (1, Entry("a0", "", "b")), "handed out before the fault is met"
    with pytest.raises(InputError, match=r"row 5001 \(line 5001\)"):
        list(rows)


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
@pytest.mark.parametrize("options", [["spam", "ham"], {"text": ["spam", "ham"], "label": ["A"]}])
def test_options_are_kept_with_the_entry(tmp_path: Path, form: str, options: object) -> None:
    row = {"instruction": "Is it spam?", "input": "Win!", "output": "spam"}
    rows = [{**row, "options": options}] * 20
    path = write(tmp_path, rows, form)
    [first, *_] = entries_of(path)[1]
    assert first == Entry("Is it spam?", "Win!", "spam", options=("spam", "ham"))
    assert "ham" not in find_style("alpaca").render(first)[0]


@pytest.mark.parametrize("value", ["a text", 3, {"a": "b"}, [1, 2], None])
def test_what_is_no_list_of_texts_is_no_options(tmp_path: Path, value: object) -> None:
    row = {"instruction": "Is it spam?", "output": "spam", "options": value}
    assert entries_of(write(tmp_path, [row]))[1][0].options == ()
