"""Judgements on disk: JSON Lines, one object a question, appended as they come.

A line bears the hash of the question's whole text, so that whatever was asked already is not asked
again: after a break, of another run with equal answers, for an entry that stands there twice.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

from twolevers.errors import TwoleversError
from twolevers.files import hash_of, write_json
from twolevers.records import Record


@dataclass(frozen=True)
class Judgement:
    """What a judge said to one question."""

    key: str
    """Hash of the question's text and of how often it had been asked before."""
    value: float | None
    """As `judge_prompts.Reading`; None: no reply held one."""
    reason: str
    reply: str
    """The last reply, whole."""
    replies: int
    """1, or 2 where the first held no number."""
    prompt_tokens: int
    reply_tokens: int


def key_of(text: str, time: int = 0) -> str:
    """Key of a question that was asked `time` times before."""
    return hash_of([text, time] if time else [text])


class Judgements:
    """The judgements of one judge, in `FOLDER/HASH.jsonl`; who that is, in `FOLDER/HASH.json`."""

    def __init__(self, folder: Path, judge: Record, sha256: str) -> None:
        self.path = folder / f"{sha256[:16]}.jsonl"
        try:
            write_json(self.path.with_suffix(".json"), judge.model_dump(mode="json"))
            self._kept = {one.key: one for one in _read(self.path)}
        except PermissionError as error:
            raise TwoleversError(
                f"{folder}: judgements cannot be kept there ({error.strerror}); open that folder, "
                "or name another home: TWOLEVERS_HOME"
            ) from error
        self._file: FileIO | None = None

    def get(self, key: str) -> Judgement | None:
        """What is kept of a question."""
        return self._kept.get(key)

    def add(self, judgement: Judgement) -> None:
        """Keep it, on disk before this returns."""
        if self._file is None:
            cut_off = self.path.is_file() and not self.path.read_bytes().endswith(b"\n")
            # Not buffered: a line is one write, so that two judges at once mix no lines.
            self._file = self.path.open("ab", buffering=0)
            # What a kill left of a line ends here; the question is asked again.
            self._file.write(b"\n" if cut_off and self.path.stat().st_size else b"")
        line = f"{json.dumps(asdict(judgement), ensure_ascii=False)}\n".encode()
        while line:
            line = line[self._file.write(line) :]
        self._kept[judgement.key] = judgement

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None


def _read(path: Path) -> list[Judgement]:
    """The whole lines of a file; a line that is none counts as not asked."""
    found = []
    if path.is_file():
        with path.open(encoding="utf-8", newline="\n", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, TypeError):
                    found.append(Judgement(**json.loads(line)))
    return found
