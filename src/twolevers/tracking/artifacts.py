"""What a run stores as files. Weights are stored once: hard links where both lie on one disk."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from twolevers.files import atomic_folder, read_json, write_json

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "checkpoints"
RECORDS = "checkpoints.json"
LEFT_OUT = "trainer_state"


def local_path(artifact_uri: str) -> Path | None:
    """The folder that a file address means, None where artifacts lie behind a server."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return Path(artifact_uri) if not parts.scheme else None


def record_checkpoint(folder: Path, path: Path, step: int, metrics: Mapping[str, float]) -> None:
    """Note a checkpoint in the run's folder; the same name again replaces the note."""
    records = [r for r in recorded_checkpoints(folder) if r["name"] != path.name]
    records.append({"name": path.name, "path": str(path), "step": step, "metrics": dict(metrics)})
    write_json(folder / RECORDS, records)


def recorded_checkpoints(folder: Path) -> list[dict[str, Any]]:
    """The checkpoints of a run, oldest first, those that no longer exist included."""
    path = folder / RECORDS
    return list(read_json(path)) if path.is_file() else []


Add = Callable[[Path], object]
"""Completes the folder of a checkpoint before it takes its place among the artifacts."""


def link_checkpoint(source: Path, target: Path, add: Add | None = None) -> None:
    """A checkpoint folder at a second place, without trainer state, sharing its files."""
    with atomic_folder(target) as temporary:
        for file in sorted(source.rglob("*")):
            if file.name.startswith(LEFT_OUT) or not file.is_file():
                continue
            copy = temporary / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file.resolve(), copy)
            except OSError:  # another disk, or one without hard links
                shutil.copy2(file, copy)
        if add:
            add(temporary)


def mirror_checkpoints(paths: list[Path], artifacts: Path, add: Add | None = None) -> None:
    """Make `artifacts/checkpoints` hold exactly these checkpoints, and the link `best`."""
    root = artifacts / FOLDER
    root.mkdir(parents=True, exist_ok=True)
    names = {path.name for path in paths}
    for old in root.iterdir():
        if old.is_symlink():
            old.unlink()
        elif old.is_dir() and old.name not in names:
            shutil.rmtree(old)
    for path in paths:
        link_checkpoint(path, root / path.name, add)
        best = path.parent / "best"
        if best.is_symlink() and best.resolve() == path.resolve():
            (root / "best").unlink(missing_ok=True)
            (root / "best").symlink_to(path.name)


def upload_checkpoints(
    paths: list[Path],
    upload: Callable[[str, str], object],
    scratch: Path,
    add: Add | None = None,
) -> None:
    """Hand each checkpoint, without trainer state, to `upload(folder, artifact path)`."""
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".upload.") as temporary:
        for path in paths:
            link_checkpoint(path, Path(temporary) / path.name, add)
            upload(str(Path(temporary) / path.name), f"{FOLDER}/{path.name}")


def table_json(table: pd.DataFrame) -> str:
    """A data frame in the form that MLflow's UI shows as a table."""
    text: str = table.to_json(orient="split", index=False, date_format="iso", force_ascii=False)
    parts = json.loads(text)
    return json.dumps({"columns": parts["columns"], "data": parts["data"]}, ensure_ascii=False)
