"""What lies in a weights file, judged by its header alone: keys, shapes, number formats.

A safetensors file says at its beginning what it holds, so that wrong weights are refused in
milliseconds and nothing is loaded twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from twolevers.errors import InputError, Problem
from twolevers.models.catalog import MODELS, GPT2Config
from twolevers.models.layout import (
    HEAD,
    INDEX_FILE,
    WEIGHTS_FILE,
    our_name,
    stored_shapes,
)

FORMATS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_SHOWN = 3
_MAPPED = 128 * 2**20  # bytes
_CONVERT = (
    "convert it once with transformers: "
    "GPT2LMHeadModel.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)"
)


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file, by its header."""

    file: Path
    key: str
    shape: tuple[int, ...]
    format: str

    def read(self) -> Tensor:
        """The numbers, as a view of the file."""
        with safe_open(self.file, framework="pt") as opened:
            return opened.get_tensor(self.key)


def weights_files(path: Path) -> list[Path]:
    """The safetensors files at `path`: itself, a folder's one file, or the shards of its index.

    Raises:
        InputError: nothing there that can be read; says what lies there instead.
    """
    if path.is_file():
        if path.name == INDEX_FILE:
            return _shards(path.parent)
        if path.suffix != ".safetensors":
            what = "is no .safetensors file, and pickle files are never read"
            raise InputError(Problem("weights", str(path), what, _CONVERT))
        return [path]
    if not path.is_dir():
        way_out = "give a folder with model.safetensors, or one .safetensors file"
        raise InputError(Problem("weights", str(path), "does not exist", way_out))
    if (path / WEIGHTS_FILE).is_file():
        return [path / WEIGHTS_FILE]
    if (path / INDEX_FILE).is_file():
        return _shards(path)
    names = sorted(file.name for file in path.iterdir())
    pickled = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    others = [name for name in names if name.endswith(".safetensors")]
    if others:
        what, way_out = f"holds no {WEIGHTS_FILE}", f"give the file itself: {path / others[0]}"
    elif pickled:
        what = f"holds no {WEIGHTS_FILE}, only {pickled[0]}, and pickle files are never read"
        way_out = _CONVERT
    else:
        what, way_out = f"holds no {WEIGHTS_FILE}", "give the folder that has it"
    raise InputError(Problem("weights", str(path), what, way_out))


def _shards(folder: Path) -> list[Path]:
    """The files that an index names, all of them there and in the folder itself."""
    index = folder / INDEX_FILE
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        shards = [folder / name for name in names]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"is no index of shards ({type(error).__name__}: {error})"
        raise InputError(Problem("weights", str(index), what, "fetch it again")) from None
    missing = [s.name for s in shards if s.parent != folder or not s.is_file()]
    if missing or not shards:
        what = f"names {some(missing) or 'no files'}, not in its folder"
        raise InputError(Problem("weights", str(index), what, "add the missing files"))
    return shards


def read_headers(path: Path) -> dict[str, StoredTensor]:
    """Every tensor at `path` by its stored key, without reading one.

    Raises:
        InputError: a file is cut short or no safetensors file, or two shards hold one key.
    """
    tensors: dict[str, StoredTensor] = {}
    problems = []
    for file in weights_files(path):
        try:
            with safe_open(file, framework="pt") as opened:
                for key in opened.keys():  # noqa: SIM118 - no mapping, only its keys
                    part = opened.get_slice(key)
                    stored = StoredTensor(file, key, tuple(part.get_shape()), part.get_dtype())
                    if key in tensors:
                        what = f"holds {key}, as {tensors[key].file.name} does"
                        problems.append(Problem("weights", str(file), what, "keep one of them"))
                    tensors[key] = stored
        except (SafetensorError, OSError) as error:
            what = f"is no whole safetensors file ({error})"
            problems.append(Problem("weights", str(file), what, "fetch or copy it again"))
    if problems:
        raise InputError(problems)
    return tensors


def read_each(tensors: Iterable[StoredTensor]) -> Iterator[tuple[str, Tensor]]:
    """Stored keys with their numbers, one after the other, each a view of the file.

    What was read counts as this process's memory for as long as the file stays open, so a big
    file is opened anew now and then; doing so for each tensor would double nano's loading time.
    """
    opened: Any = None
    file, left = None, 0
    for stored in tensors:
        if stored.file != file or left <= 0:
            opened, file, left = safe_open(stored.file, framework="pt"), stored.file, _MAPPED
        tensor = opened.get_tensor(stored.key)
        left -= tensor.nbytes
        yield stored.key, tensor


def tensor_problems(
    path: Path, config: GPT2Config, tensors: Mapping[str, StoredTensor]
) -> list[Problem]:
    """What keeps these tensors from being this model's; empty where nothing does."""
    found: dict[str, StoredTensor] = {}
    repeated = []
    for key, stored in tensors.items():
        name = our_name(key)
        if name is not None and name != HEAD:
            repeated += [key] if name in found else []
            found[name] = stored
    wanted = stored_shapes(config)
    way_out = _way_out(found)
    problems = []

    def add(what: str, names: Iterable[str]) -> None:
        if names := list(names):
            problems.append(Problem("weights", str(path), f"{what} {some(names)}", way_out))

    add("lacks", (name for name in wanted if name not in found))
    add("holds what the model has not:", (name for name in found if name not in wanted))
    add("holds twice, with and without prefix:", repeated)
    add(
        "has other shapes than the model:",
        (
            f"{name} {found[name].shape} instead of {shape}"
            for name, shape in wanted.items()
            if name in found and found[name].shape != shape
        ),
    )
    add(
        "has numbers in another format than float32, float16 or bfloat16:",
        (
            f"{name} ({stored.format})"
            for name, stored in found.items()
            if stored.format not in FORMATS
        ),
    )
    return problems


def head_problem(path: Path, tensors: Mapping[str, StoredTensor]) -> Problem | None:
    """A stored output layer must be the embedding itself, for that is what the model computes."""
    by_name = {our_name(key): stored for key, stored in tensors.items()}
    head, embedding = by_name.get(HEAD), by_name.get("wte.weight")
    if head is None or embedding is None:
        return None
    same = (head.shape, head.format) == (embedding.shape, embedding.format)
    if same and torch.equal(head.read(), embedding.read()):
        return None
    return Problem(
        "weights",
        str(path),
        f"has an output layer ({HEAD}) of its own, where GPT-2 uses its embedding (wte.weight)",
        "give weights with a tied output layer",
    )


def fitting_model(found: Mapping[str, StoredTensor]) -> str | None:
    """Short name of the catalog's model that has exactly these shapes, if one has."""
    shapes = {name: stored.shape for name, stored in found.items()}
    for entry in MODELS.values():
        if shapes == stored_shapes(entry.config):
            return entry.short_name
    return None


def not_finite(tensors: Iterable[StoredTensor]) -> list[str]:
    """Keys of the tensors that hold NaN or infinity."""
    keys = []
    usable = (stored for stored in tensors if stored.format in FORMATS and 0 not in stored.shape)
    for key, tensor in read_each(usable):
        low, high = tensor.aminmax()  # NaN goes through both; no copy is made
        if not (torch.isfinite(low) and torch.isfinite(high)):
            keys.append(key)
    return keys


def _way_out(found: Mapping[str, StoredTensor]) -> str:
    if fits := fitting_model(found):
        return f"these are the sizes of {fits}: choose --model {fits}, or give other weights"
    return "give the weights of this model, or choose the model that these belong to"


def some(names: list[str]) -> str:
    """The first few of many names, and how many more."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
