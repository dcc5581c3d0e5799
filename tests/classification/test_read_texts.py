"""Texts and labels out of files as people have them, and what is said of files that won't do."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from twolevers.classification.options import LabelledDataOptions
from twolevers.classification.read import read_labelled
from twolevers.errors import InputError

ROWS = [("spam", 'Win, "now"'), ("ham", "See you\nat 5"), ("spam", "Grüße, 50 % off")]


def written(folder: Path, form: str) -> Path:
    path = folder / "data.any"  # told by content
    objects = [{"label": label, "text": text} for label, text in ROWS]
    if form == "parquet":
        pa.parquet.write_table(pa.Table.from_pylist(objects), path)
        return path
    quoted = [(label, '"' + text.replace('"', '""') + '"') for label, text in ROWS]
    text = {
        "csv": "label,text\n" + "".join(f"{label},{text}\n" for label, text in quoted),
        "tsv": "label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in quoted),
        "semicolons": "label;text\r\n" + "".join(f"{label};{text}\r\n" for label, text in quoted),
        "json": json.dumps(objects, indent=1),
        "jsonl": "\n".join(json.dumps(one, ensure_ascii=False) for one in objects) + "\n\n",
        "mark": "\ufefflabel,text\n" + "".join(f"{label},{text}\n" for label, text in quoted),
    }[form]
    path.write_bytes(text.encode("utf-8"))
    return path


@pytest.mark.parametrize("form", ["csv", "tsv", "semicolons", "json", "jsonl", "parquet", "mark"])
def test_every_format(tmp_path: Path, form: str) -> None:
    found = read_labelled(written(tmp_path, form), LabelledDataOptions())
    assert list(zip(found.labels, found.texts, strict=True)) == ROWS
    assert (found.text_column, found.label_column) == ("text", "label")
    assert found.order == ("ham", "spam")
    assert found.row_numbers == [1, 2, 3]


def read(folder: Path, text: str, **options: object) -> tuple[list[str], list[str]]:
    path = folder / "data.csv"
    path.write_text(text, encoding="utf-8")
    found = read_labelled(path, LabelledDataOptions.model_validate(options))
    return found.labels, found.texts


def refused(folder: Path, text: str, **options: object) -> str:
    with pytest.raises(InputError) as error:
        read(folder, text, **options)
    return str(error.value)


def test_columns_by_name(tmp_path: Path) -> None:
    text = "a,b,c\n1,x,one\n2,y,two\n"
    labels, texts = read(tmp_path, text, text_column="c", label_column="a")
    assert (labels, texts) == (["1", "2"], ["one", "two"])


@pytest.mark.parametrize("names", ["Label,SMS", "category,Review", "v1,text", "target,v2"])
def test_columns_guessed(tmp_path: Path, names: str) -> None:
    assert read(tmp_path, f"{names}\n0,one\n1,two\n") == (["0", "1"], ["one", "two"])


def test_the_chapters_file_has_no_header(tmp_path: Path) -> None:
    lines = "ham\tGo on, call me\nspam\tFree entry\n"
    columns = {"header": False, "label_column": "1", "text_column": "2"}
    assert read(tmp_path, lines, **columns) == (["ham", "spam"], ["Go on, call me", "Free entry"])
    message = refused(tmp_path, lines)
    assert "the columns are 'ham', 'Go on, call me'" in message
    assert "--no-header" in message


def test_ambiguous_and_absent_columns(tmp_path: Path) -> None:
    message = refused(tmp_path, "text,message,label\na,b,0\nc,d,1\n")
    assert "could be 'text' or 'message'; the columns are 'text', 'message', 'label'" in message
    assert "--text-column" in message
    message = refused(tmp_path, "a,b,c\n1,2,3\n")
    assert "holds the texts can't be told; the columns are 'a', 'b', 'c'" in message
    assert "holds the labels can't be told" in message
    message = refused(tmp_path, "text,label\na,0\nb,1\n", text_column="texts")
    assert "--text-column 'texts': data.csv has no such column (did you mean 'text'?)" in message
    message = refused(tmp_path, "text,label\na,0\n", text_column="label", label_column="label")
    assert "cannot be both" in message


def test_empty_texts_and_labels_by_row(tmp_path: Path) -> None:
    message = refused(tmp_path, "text,label\na,0\n  ,1\nb,\n")
    assert "data.csv, row 2 '  ': text is empty" in message
    assert "data.csv, row 3: label is empty" in message
    many = refused(tmp_path, "text,label\n" + ",1\n" * 30)
    assert many.count("text is empty") == 20
    assert "10 more rows cannot be used (30 in all)" in many


def test_one_label_only(tmp_path: Path) -> None:
    assert "every row has the label 'x'" in refused(tmp_path, "text,label\na,x\nb,x\n")


def test_rows_of_another_width(tmp_path: Path) -> None:
    message = refused(tmp_path, "text,label\na,0\nb,c,1\n")
    assert "row 2 (line 3)" in message
    assert "has 3 columns where the first row has 2" in message


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"text,label\n", "holds no rows"),
        (b"<html>", "looks like a web page"),
        (b"\xff\xfet\x00", "is text in UTF-16; save it as UTF-8"),
        (b"text,label\ncaf\xe9,0\n", "neither Parquet nor UTF-8"),
        (b"\x1f\x8b\x08\x00", "compressed with gzip; decompress it first"),
        (b'text,label\n"a,0\nb,1\n', "line 2: no valid CSV in the row that begins here"),
        (b'text,label\nb,1\n"a,0\n"c,1\n', "line 3: no valid CSV in the row that begins here"),
        (b'{"data": [\n{"text": "a"}\n]}', "save the list under 'data' alone"),
        (b'{"text": "a", "label": 0, "label": 1}', "'label': this key stands twice"),
        (b'[{"text": NaN, "label": NaN}]', "row 1: text is empty"),
        (b'[{"text": "a", "label": NaN}]', "row 1: label is empty"),
        (b"t\x00", "zero byte"),
        (b"text\nonly\n", "has one column only"),
        (b'[{"text": "a"', "no valid JSON"),
        (b'[{"text": "a", "label": 0}, 7]', "row 2 7: is no object"),
        (b'{"text": "a", "label": 0}\n{"text"\n', "line 2, column 8: no valid JSON"),
        (b'[{"text": 5, "label": 0}, {"text": "a", "label": 1.5}]', "row 1 5: text is no text"),
        (b'[{"text": "a", "label": 1.5}, {"text": "b"}]', "row 1 1.5: label is no label"),
        (b"text,text,label\na,b,0\n", "'text': stands twice"),
        (b"text,label,,\na,0,,\nb,1,x,y\n", "'': stands twice"),
        (b"1,2\na,b\n", "give --no-header where the first row names no columns"),
        (b'[{"text": {"en": "a"}, "label": 0}]', "text is no text; give text"),
        (b"text,label\na,0\nb," + 201 * b"x", "has 201 characters, a label at most 200"),
        (b'[{"text": "a", "label": 1e300}]', "row 1 1e+300: label is no label"),
        (b"PAR1nonsense", "cannot be read as Parquet"),
    ],
)
def test_what_is_no_such_file(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_labelled(path, LabelledDataOptions())
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        # As in UCI's SMS Spam Collection: a mark that opens nothing, and one that closes early.
        ('ham\t"Go on\nspam\t"Win" now\nham\t"see"\n', ['"Go on', '"Win" now', '"see"']),
        ('ham\t"Go ""on"""\nspam\t6" pipe\nham\t"a\nb"\n', ['Go "on"', '6" pipe', "a\nb"]),
        ("ham,Hi; you; there\nspam,a\n", ["Hi; you; there", "a"]),
        ("ham,[x] {y}\nspam,<z>\n", ["[x] {y}", "<z>"]),
    ],
)
def test_quotation_marks_and_delimiters_in_texts(
    tmp_path: Path, lines: str, texts: list[str]
) -> None:
    columns = {"header": False, "label_column": "1", "text_column": "2"}
    assert read(tmp_path, lines, **columns)[1] == texts


def test_texts_that_begin_as_json_does_and_no_header(tmp_path: Path) -> None:
    columns = {"header": False, "label_column": "2", "text_column": "1"}
    texts = ["[x] hi", "{y}", "<z>"]
    lines = "".join(f"{text}\t{number % 2}\n" for number, text in enumerate(texts))
    assert read(tmp_path, lines, **columns)[1] == texts
    message = refused(tmp_path, "text,label\na,0\n", **columns | {"text_column": "1"})
    assert "names the columns 'text' and 'label': it is a header; leave out --no-header" in message


def test_parquet_with_a_column_twice(tmp_path: Path) -> None:
    table = pa.table([["a", "b"], ["c", "d"], ["x", "y"]], names=["text", "text", "label"])
    pa.parquet.write_table(table, tmp_path / "data")
    with pytest.raises(InputError, match="column 'text': stands twice"):
        read_labelled(tmp_path / "data", LabelledDataOptions())


def test_half_characters_and_long_values(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    rows = [{"text": "a\ud83d", "label": "x\ud83d"}, {"text": "b", "label": "y"}]
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read_labelled(path, LabelledDataOptions())
    assert (found.texts, found.labels) == (["a\ufffd", "b"], ["x\ufffd", "y"])
    message = refused(tmp_path, "y" * 200_000 + "\tham\nb\tspam\n")
    assert len(message) < 1000


def test_columns_that_a_spreadsheet_left_empty(tmp_path: Path) -> None:
    assert read(tmp_path, "text;label;;\na;x;;\nb;y; ;\n") == (["x", "y"], ["a", "b"])


def test_parquet_as_databases_and_pandas_write_it(tmp_path: Path) -> None:
    texts = pa.array(["a", "b", "c"], pa.large_string()).dictionary_encode()
    for labels, expected in (
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (pa.array([7, 8, 7]).cast(pa.decimal128(21, 2)), ["7", "8", "7"]),
        (pa.array([7, 8, 7], pa.uint8()), ["7", "8", "7"]),
    ):
        pa.parquet.write_table(pa.table({"text": texts, "label": labels}), tmp_path / "data")
        found = read_labelled(tmp_path / "data", LabelledDataOptions())
        assert (found.texts, found.labels) == (["a", "b", "c"], expected)


def test_labels_that_look_the_same_are_the_same(tmp_path: Path) -> None:
    rows = 'text,label\na,"two\nlines"\nb,two  lines\nc,caf\u00e9\nd,cafe\u0301\n'
    assert read(tmp_path, rows)[0] == ["two lines", "two lines", "caf\u00e9", "caf\u00e9"]


def test_true_and_false_are_the_same_labels_in_every_format(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"], "label": [True, False, True]})
    frame.to_csv(tmp_path / "data.csv", index=False)  # True, False
    frame.to_json(tmp_path / "data.jsonl", orient="records", lines=True)  # true, false
    frame.to_parquet(tmp_path / "data.parquet")
    for name in ("data.csv", "data.jsonl", "data.parquet"):
        found = read_labelled(tmp_path / name, LabelledDataOptions())
        assert found.labels == ["true", "false", "true"], name
    assert read(tmp_path, "text,label\na,TRUE\nb,False\n")[0] == ["true", "false"]
    assert read(tmp_path, "text,label\na,True\nb,False\nc,Maybe\n")[0] == [
        "True",
        "False",
        "Maybe",
    ]


def test_columns_are_found_however_their_names_are_written(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("Body , KIND,note\na,x,1\nb,y,2\n", encoding="utf-8")
    options = LabelledDataOptions(text_column="body", label_column="Kind")
    found = read_labelled(tmp_path / "data.csv", options)
    assert (found.texts, found.labels) == (["a", "b"], ["x", "y"])


def test_labels_of_any_kind_in_order(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    rows = [{"text": "a", "label": label} for label in (10, 9, "2", 10.0)]
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read_labelled(path, LabelledDataOptions())
    assert (found.labels, found.order) == (["10", "9", "2", "10"], ("2", "9", "10"))
    rows = [{"text": "a", "label": label} for label in (True, False, "b ")]
    path.write_text(json.dumps(rows), encoding="utf-8")
    assert read_labelled(path, LabelledDataOptions()).order == ("b", "false", "true")
