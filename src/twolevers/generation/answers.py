"""Answers on disk: JSON Lines, one object an entry of the split, in its order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from twolevers.errors import TwoleversError
from twolevers.files import atomic_file
from twolevers.records import Responses


@dataclass(frozen=True)
class Answer:
    """What a model answered to one entry."""

    instruction: str
    input: str
    output: str
    """The reference."""
    model_response: str
    """The answer, white space at both ends removed as the chapter does."""
    kind: str
    """Kind of task, empty where the data does not name it."""
    ended: bool
    """The model ended its answer itself."""
    row: int
    """The entry's number in the data file, from 1."""


def write_answers(path: Path, answers: Iterable[Answer]) -> None:
    """All answers, or no file."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        for answer in answers:
            out.write(json.dumps(asdict(answer), ensure_ascii=False) + "\n")


def read_answers(responses: Responses) -> list[Answer]:
    """What `write_answers` wrote.

    Raises:
        TwoleversError: the file is gone or no longer holds what the record says.
    """
    path = responses.path
    answers = read_answer_file(path)
    if len(answers) != responses.num_responses:
        raise TwoleversError(
            f"{path}: holds {len(answers)} answers, {responses.num_responses} were written; "
            "generate them again"
        )
    return answers


def read_answer_file(path: Path) -> list[Answer]:
    """All answers of a file, however many there should be.

    Raises:
        TwoleversError: it cannot be read.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            return [Answer(**json.loads(line)) for line in file]
    except (OSError, ValueError, TypeError) as error:
        raise TwoleversError(
            f"{path}: the answers cannot be read ({error}); generate them again"
        ) from error


def read_pairs(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Both models' answers side by side: the entry's fields, `base` and `tuned`, in the data's
    order. None where one of the two files is missing or they do not belong together.

    Args:
        folders: where `responses-base.jsonl` and `responses-tuned.jsonl` may lie.
    """
    places = list(folders)
    files = (
        next((f for p in places if (f := p / f"responses-{role}.jsonl").is_file()), None)
        for role in ("base", "tuned")
    )
    try:
        # Not `splitlines`: JSON leaves line separators of Unicode as they are.
        base, tuned = (
            [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
            for file in files
            if file
        )
        return [
            {**after, "base": before["model_response"], "tuned": after["model_response"]}
            for before, after in zip(base, tuned, strict=True)
        ]
    except (ValueError, KeyError):
        return []
