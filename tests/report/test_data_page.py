"""A data set's page: whole, escaped, told apart by more than colour."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

from ended_run import ATTACK, Page

from twolevers.data.fetch import fetch_dataset
from twolevers.data.inspect import Inspection, inspect
from twolevers.data.prompt import Entry, find_style
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.report.data_page import bins, data_html, figures, findings
from twolevers.settings import Home


def inspected(tmp_path: Path, home: Home, **options: str) -> Inspection:
    rows = [
        {"instruction": f"{ATTACK} {i} \u202e", "input": "", "output": f"ünï {i}\nдва", "kind": "k"}
        for i in range(30)
    ]
    rows[29] = rows[3]
    path = tmp_path / "a <b>.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    fetched = fetch_dataset(str(path), home, Silent())
    return inspect(fetched, DataOptions(**options), seed=1, progress=Silent())


def test_the_page_is_whole_and_escaped(tmp_path: Path, home: Home) -> None:
    html = data_html(inspected(tmp_path, home))
    page = Page(html)
    assert ATTACK not in html
    assert "\u202e" not in html, "text that turns its surroundings round is written out"
    assert "a <b>.json" in page.text
    assert page.row("longest")[1].isdigit()
    assert page.row("k") == ["k", "30"]
    assert float(page.row("Cyrillic")[2]) > float(page.row("Latin")[2])
    assert "Entries that repeat an earlier one whole: 1 (row 30 as 4)." in page.text
    assert page.tags.count("article") == 10


def test_tokens_spell_the_row_and_its_loss(tmp_path: Path, home: Home) -> None:
    html = data_html(inspected(tmp_path, home, loss_on="response"))
    row = re.findall(r'<p class="tokens">(.*?)</p>', html, re.DOTALL)[0]
    groups = re.findall(r'<span class="(\w+)"[^>]*>(.*?)</span>', row, re.DOTALL)
    prompt, response = find_style("alpaca").render(Entry(f"{ATTACK} 0 \u202e", "", "ünï 0\nдва"))
    texts = [
        (kind, "".join(unescape(text) for text in re.findall("<b>(.*?)</b>", tokens, re.DOTALL)))
        for kind, tokens in groups
    ]
    assert texts == [
        ("ignored", prompt.replace("\n", "⏎\n").replace("\u202e", r"\xe2\x80\xae")),
        ("supervised", response.replace("\n", "⏎\n")),
        ("end", "<|endoftext|>"),
    ]
    # Bytes are nothing to read, so the text stands beside them.
    [text, *_] = re.findall(r'<details>.*?dir="auto">(.*?)</p></details>', html, re.DOTALL)
    whole = f"{prompt}{response}<|endoftext|>".replace("\n", "⏎\n").replace("\u202e", r"\u202e")
    assert unescape(text) == whole
    # Solid, dotted, boxed: in print and to whoever sees no colours.
    borders = {
        kind: re.search(rf"\.{kind} b {{[^}}]*?border[^:]*: (\S+ \w+)", html) for kind, _ in groups
    }
    assert {kind: found and found[1] for kind, found in borders.items()} == {
        "ignored": "2px dotted",
        "supervised": "2px solid",
        "end": "3px double",
    }


def test_figures_and_bins_add_up(tmp_path: Path, home: Home) -> None:
    found = inspected(tmp_path, home, max_length="10")
    assert figures(found)["over 10 tokens"] == "30 (100.0%)"
    # 3 of the 30 rows are of the test split, and their prompts alone are too long.
    assert "Would be cut to 10 tokens: 27." in list(findings(found))
    assert sum(count for _, count in bins(found.histogram)) == 30
    names = [name for name, _ in bins({"edges": [0, 20, 40], "counts": [1, 2, 3]})]
    assert names == ["0 to 19", "20 to 39", "40 and more"]


def test_of_very_many_kinds_the_largest_are_shown(tmp_path: Path, home: Home) -> None:
    found = replace(inspected(tmp_path, home), kinds={f"kind {i}": 3 for i in range(50)})
    page = Page(data_html(found))
    assert page.row("kind 39") == ["kind 39", "3"]
    assert page.row("10 more") == ["10 more", "30"]
    assert "kind 40" not in page.text
