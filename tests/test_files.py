"""Writes are whole or not there at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from twolevers.files import (
    atomic_file,
    atomic_folder,
    hash_of,
    read_json,
    sha256_of,
    write_json,
)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"ü": 1})

    def fail() -> None:
        with atomic_file(path) as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise KeyError("on purpose")

    with pytest.raises(KeyError):
        fail()
    assert read_json(path) == {"ü": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with atomic_folder(path) as temporary:
        (temporary / "one").write_text("1", encoding="utf-8")

    def fail() -> None:
        with atomic_folder(path) as temporary:
            (temporary / "two").write_text("2", encoding="utf-8")
            raise KeyError("on purpose")

    with pytest.raises(KeyError):
        fail()
    assert [p.name for p in path.iterdir()] == ["one"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_new_folder_takes_the_old_ones_place(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for name in ("one", "two"):
        with atomic_folder(path) as temporary:
            (temporary / name).write_text(name, encoding="utf-8")
    assert [p.name for p in path.iterdir()] == ["two"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_hashes(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"abc")
    assert sha256_of(file) == hashlib.sha256(b"abc").hexdigest()
    assert hash_of({"a": 1, "b": [2]}) == hash_of({"b": [2], "a": 1})
    assert hash_of({"a": 1}) != hash_of({"a": 2})
