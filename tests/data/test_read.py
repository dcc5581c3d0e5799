"""Reading entries: every format by content, and what is wrong said with its place."""

import gzip
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from twolevers.data.prompt import Entry
from twolevers.data.read import read_entries
from twolevers.errors import InputError

A = Entry("Say a.", "", "a")
B = Entry("Say b.", "in", "b", "saying")
ROW_A = {"instruction": "Say a.", "input": None, "output": "a"}
ROW_B = {"instruction": "Say b.", "input": "in", "output": "b", "kind": "saying", "id": 7}


def read(tmp_path: Path, content: str | bytes, name: str = "data.json") -> list[Entry]:
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    found = list(read_entries(path))
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [entry for _, entry in found]


def refuse(tmp_path: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    return str(caught.value)


ARRAY = json.dumps([ROW_A, ROW_B])
LINES = json.dumps(ROW_A) + "\n\n" + json.dumps(ROW_B) + "\r\n"
CSV = 'id,instruction,input,output,kind\n1,Say a.,,a,\n2,"Say b.",in,b,saying\n'


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("content", [ARRAY, LINES, CSV, CSV.replace(",", "\t")])
@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "x.csv"])
def test_the_content_decides_not_the_name(
    tmp_path: Path, mark: str, content: str, name: str
) -> None:
    assert read(tmp_path, mark + content, name) == [A, B]


@pytest.mark.parametrize("kind", ["text", "large", "dictionary", "null"])
def test_parquet(tmp_path: Path, kind: str) -> None:
    texts = {name: [ROW_A.get(name), ROW_B.get(name)] for name in ROW_B if name != "id"}
    types = {"text": pa.string(), "large": pa.large_string(), "null": pa.string()}
    columns = {
        name: pa.array(column, types.get(kind, pa.string())) for name, column in texts.items()
    }
    if kind == "dictionary":
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    if kind == "null":
        columns["input"] = pa.nulls(2)
    pa.parquet.write_table(pa.table(columns | {"id": [1, 2]}), tmp_path / "x.json")
    found = [entry for _, entry in read_entries(tmp_path / "x.json")]
    assert found == [A, B if kind != "null" else Entry("Say b.", "", "b", "saying")]


def test_one_object_and_one_over_several_lines(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps(ROW_B)) == [B]
    assert read(tmp_path, json.dumps(ROW_B, indent=2)) == [B]


def test_category_is_a_kind_and_a_blank_input_is_none(tmp_path: Path) -> None:
    row = ROW_B | {"kind": None, "category": "said", "input": "  \n"}
    assert read(tmp_path, json.dumps([row])) == [Entry("Say b.", "", "b", "said")]
    del row["input"]
    assert read(tmp_path, json.dumps([row | {"kind": 3}])) == [Entry("Say b.", "", "b")]


def test_csv_cells_stay_text(tmp_path: Path) -> None:
    rows = 'output,instruction,input\n01,NA,null\n1,true,2024-01-01\n1.50,"a\nb, ""c"""," d "\n'
    assert read(tmp_path, rows) == [
        Entry("NA", "null", "01"),
        Entry("true", "2024-01-01", "1"),
        Entry('a\nb, "c"', " d ", "1.50"),
    ]


def test_stray_quotation_marks_of_tab_separated_text(tmp_path: Path) -> None:
    rows = 'instruction\toutput\n"Say a.\ta\nSay b.\t"b" it is\nSay\t"c"\n'
    assert read(tmp_path, rows) == [
        Entry('"Say a.', "", "a"),
        Entry("Say b.", "", '"b" it is'),
        Entry("Say", "", '"c"'),
    ]
    rows = 'instruction\toutput\n"Say ""a"".\n"\t6" pipe\n'
    assert read(tmp_path, rows) == [Entry('Say "a".\n', "", '6" pipe')]


def test_nan_is_as_good_as_null(tmp_path: Path) -> None:
    # pandas.DataFrame.to_dict and json.dump write it so.
    row = '[{"instruction": "a", "input": NaN, "output": "b", "kind": NaN}]'
    assert read(tmp_path, row) == [Entry("a", "", "b")]
    row = '[{"instruction": "a", "input": NaN, "output": ""}]'
    assert "output is empty" in refuse(tmp_path, row)
    assert len(refuse(tmp_path, row).splitlines()) == 1


def test_a_csv_cell_of_megabytes(tmp_path: Path) -> None:
    text = "x\n" * 1_500_000
    assert read(tmp_path, f'instruction,output\na,"{text}"\nc,d\n')[0].output == text


def test_other_locales_read_the_same(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('[{"instruction":"Grüße 😀","output":"ñ"}]', encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from twolevers.data.read import read_entries;"
        "print(ascii(list(read_entries(Path(sys.argv[1])))[0][1].instruction))"
    )
    environ = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", code, str(tmp_path / "x")]
    found = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ascii("Grüße 😀")


def test_half_characters_are_replaced(tmp_path: Path) -> None:
    row = r'[{"instruction": "a\ud83d", "output": "\ud83d\ude00"}]'
    assert read(tmp_path, row) == [Entry("a\ufffd", "", "😀")]


def test_every_row_that_is_no_entry_is_named(tmp_path: Path) -> None:
    rows: list[Any] = [
        7,
        None,
        {"instruction": "a"},
        {"instruction": 5, "output": ["x"]},
        ROW_A,
        {"instruction": " ", "output": ""},
        {"instruction": "a", "output": None},
        {"instruction": "a", "output": "b", "input": {}},
    ]
    assert refuse(tmp_path, json.dumps(rows)).splitlines() == [
        "data.json, row 1 7: is a number, not an object; write {'instruction': …, 'output': …}",
        "data.json, row 2: is null, not an object; write {'instruction': …, 'output': …}",
        "data.json, row 3: has no output; its keys are 'instruction'; "
        "fill in its output, or remove the row",
        "data.json, row 4 5: instruction is a number, not text; "
        "give it as text, in quotation marks",
        "data.json, row 4 ['x']: output is a list, not text; give it as text, in quotation marks",
        "data.json, row 6 ' ': instruction is empty; fill in its instruction, or remove the row",
        "data.json, row 6 '': output is empty; fill in its output, or remove the row",
        "data.json, row 7: output is null; fill in its output, or remove the row",
        "data.json, row 8 {}: input is an object, not text; give it as text, in quotation marks",
    ]


def test_a_row_is_an_entry_or_has_a_fault(tmp_path: Path) -> None:
    values = ["x", "", " ", None, 0, False, [], {}]
    for instruction, given, output in itertools.product(values, repeat=3):
        row = {"instruction": instruction, "input": given, "output": output}
        if instruction == output == "x" and (given is None or isinstance(given, str)):
            assert read(tmp_path, json.dumps(row)) == [Entry("x", (given or "").strip(), "x")]
        else:
            assert "data.json, row 1" in refuse(tmp_path, json.dumps(row))


def test_twenty_rows_are_named_and_all_counted(tmp_path: Path) -> None:
    lines = refuse(tmp_path, json.dumps([{"instruction": "a", "output": ""}] * 50)).splitlines()
    assert len(lines) == 21
    assert "30 more rows are no entries (50 in all)" in lines[-1]


def test_lines_are_named_in_json_lines(tmp_path: Path) -> None:
    good = json.dumps(ROW_A)
    text = refuse(tmp_path, f'{good}\n\n{{"a": }}\n{good}\n{{"instruction": "x"}}\n')
    assert "row 2 (line 3) '{\"a\": }': no valid JSON at column 7" in text
    assert "row 4 (line 5): has no output" in text


def test_broken_csv_rows_are_numbered(tmp_path: Path) -> None:
    text = refuse(tmp_path, "instruction,output\na,b\na,b,c\nd,\n")
    assert "row 2: has 3 columns where the header has 2: 'a,b,c'" in text
    assert "row 3 '': output is empty" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[\n  {"instruction": "a",\n   "output" "b"}\n]', "line 3, column 13: no valid JSON"),
        ('[{"instruction": "a', "line 1, column 18"),
        ("[{'instruction': 'a'}]", "line 1, column 3"),
        ("[" * 50_000, "recursion"),
        ("[]", "holds no entries"),
        ("instruction,output\n", "holds no entries"),
        ("instruction,output", "holds no entries"),
        ("", "the file is empty"),
        ("\ufeff \n\n", "the file is empty"),
        ('{"version": 1, "features": [], "data": [{}]}', "save the list under 'data' alone"),
        ('{"instruction": "a"},\n{"instruction": "b"},\n', "one object a line, no commas"),
        ('{\n"output": "a"\n}\n{\n"output": "b"\n}', "line 4, column 1: no valid JSON: Extra"),
        ('[{"instruction": "a", "output": "b", "output": "c"}]', "'output': this key stands twice"),
        ('[{"instruction": NaN, "output": "b"}]', "instruction is NaN"),
        ("instruction,result\na,b\n", "column 'output': is missing; the columns are"),
        ("Task,Output\na,b\n", 'say which it is: --map "instruction=COLUMN"'),
        ("instruction,output,output\na,b,c\n", "column 'output': stands twice"),
        ('instruction,output\na,"b\nc,d\n', "line 2: no valid CSV in the row that begins here"),
        ('instruction,output\na,"b\nc,"d\n', "line 2: no valid CSV in the row that begins here"),
        ("x" * 200_000, "none of the formats known: it begins with 'xxx"),
        (b"\xff\xff\xff\xff\x10\x00", "an Arrow stream; save it as Parquet"),
        ("a text\nof no format", "none of the formats known: it begins with 'a text'"),
        ("<!DOCTYPE html>\n<html>", "looks like a web page"),
        ("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (gzip.compress(b"[]", mtime=0), "compressed with gzip; decompress it first"),
        (b"PK\x03\x04...", "zip archive"),
        (ARRAY.encode("utf-16"), "is text in UTF-16; save it as UTF-8"),
        (ARRAY.encode("utf-16-le"), "byte 2 is zero"),
        (("[" + "\n" * 9).encode() + b"caf\xe9", "is not UTF-8: byte 14, in line 10"),
        (b"PAR1 and no more", "cannot be read as Parquet"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, content: str | bytes, message: str) -> None:
    assert message in refuse(tmp_path, content)


def test_no_utf8_far_into_a_file(tmp_path: Path) -> None:
    # The bad byte lies beyond the first block read, behind a character that straddles two.
    content = b"[" + b" " * ((1 << 20) - 2) + "é\n".encode() + b"\n\xff"
    assert f"byte {(1 << 20) + 4}, in line 3" in refuse(tmp_path, content)


def test_wrong_columns_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pa.parquet.write_table(pa.table({"instruction": ["a"], "output": [1]}), path)
    with pytest.raises(InputError, match="row 1 1: output is a number"):
        list(read_entries(path))
    no_date = pa.array([2**50], pa.timestamp("ms"))  # in the year 37,648
    pa.parquet.write_table(pa.table({"instruction": ["a"], "output": no_date}), path)
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        list(read_entries(path))
    pa.parquet.write_table(pa.table({"output": ["a"]}), path)
    with pytest.raises(InputError, match=r"column 'instruction': is missing; the columns are"):
        list(read_entries(path))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        list(read_entries(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        list(read_entries(tmp_path / "none.json"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no ordinary file"):
        list(read_entries(tmp_path / "pipe"))
