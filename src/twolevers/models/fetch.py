"""Base weights for a model: from the package, from a folder of the user's, or from a hub.

Whatever comes back was checked: its hash where one is known, and by its header that it is
this model. Bad weights are refused here, before the training stage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twolevers import embedded
from twolevers.errors import FetchError, InputError, Problem
from twolevers.files import hash_of
from twolevers.models.catalog import MODELS, ModelEntry, find_model
from twolevers.models.known_hashes import is_known_good, known_sha256, mark_good
from twolevers.models.layout import (
    CONFIG_FILE,
    HEAD,
    WEIGHTS_FILE,
    config_from,
    our_name,
    read_hf_config,
)
from twolevers.models.stored import (
    StoredTensor,
    head_problem,
    not_finite,
    read_headers,
    some,
    tensor_problems,
    weights_files,
)
from twolevers.progress import Progress
from twolevers.records import WeightsFolder
from twolevers.settings import Home


def fetch_weights(model: str, weights: str | None, home: Home, progress: Progress) -> WeightsFolder:
    """Base weights for `model` on this disk, checked.

    Args:
        model: a name of the catalog.
        weights: the user's own folder or `.safetensors` file; None for the catalog's.
        home: where downloads and records of what was verified go.
        progress: told about a download. What is here already needs no request.

    Raises:
        InputError: no such model, or the user's weights are not this model's.
        FetchError: the weights cannot be had; says what the user can do.
    """
    entry = find_model(model)
    if weights is not None:
        return _local(entry, weights, home)
    if entry.repo is None:
        return _shipped(entry, home)
    return _from_hub(entry, home, progress)


def _shipped(entry: ModelEntry, home: Home) -> WeightsFolder:
    folder = embedded.NANO_PATH
    fault = None
    if not (folder / WEIGHTS_FILE).is_file():
        fault = f"lacks {folder / WEIGHTS_FILE}"
    else:
        fault = _fault(entry, folder / WEIGHTS_FILE, entry.sha256, home)
    if fault:
        raise FetchError(
            f"{entry.name} ships with twolevers, but this installation {fault}; install twolevers "
            "again, or pass --weights FOLDER with a copy"
        )
    return WeightsFolder(
        model=entry.name,
        path=folder,
        sha256=known_sha256(folder / WEIGHTS_FILE, home),
        source="shipped",
        verified="shipped",
    )


def _from_hub(entry: ModelEntry, home: Home, progress: Progress) -> WeightsFolder:
    # Imported here: a run on shipped or local weights needs no http client (0.3 s).
    from twolevers.models import hub

    assert entry.repo is not None
    file = hub.HubFile(entry.repo, entry.revision or "main", WEIGHTS_FILE, entry.sha256)
    path = hub.cached(file, home)
    fault = _fault(entry, path, entry.sha256 or hub.hub_hash(path), home) if path else None
    if path is None or fault:
        try:
            if hub.is_offline():
                here = f"the copy in the cache {fault}: {path}" if fault else "no copy is here"
                raise FetchError(f"HF_HUB_OFFLINE forbids asking a hub for {file}, and {here}")
            if fault:
                progress.note(f"the copy in the cache {fault}; fetching it again")
            path = hub.download(file, home, progress)
            if fault := _fault(entry, path, entry.sha256 or hub.hub_hash(path), home):
                path.resolve().unlink(missing_ok=True)
                path.unlink(missing_ok=True)
                raise FetchError(f"{file}, as the hub serves it, {fault}; it was deleted")
        except FetchError as error:
            message = f"{error}.\n{_ways_out(entry, hub.is_offline(), error.retryable)}"
            raise FetchError(message, retryable=error.retryable) from None
    own = "hub's own hash" if hub.hub_hash(path) else "not verified"
    return WeightsFolder(
        model=entry.name,
        path=path.parent,
        sha256=known_sha256(path, home),
        source=f"hub:{file.repo}@{file.revision}",
        verified="pinned sha256" if entry.sha256 else own,
    )


def _fault(entry: ModelEntry, file: Path, sha256: str | None, home: Home) -> str | None:
    """What is wrong with a file that should be this model's: its hash, or what it holds."""
    found = known_sha256(file, home)
    if sha256 and found != sha256:
        return f"has the wrong content (SHA-256 {found} instead of {sha256})"
    try:
        problems = tuple(tensor_problems(file, entry.config, read_headers(file)))
    except InputError as error:
        problems = error.problems
    return "; ".join(problem.what for problem in problems) or None


def _ways_out(entry: ModelEntry, offline: bool, retryable: bool) -> str:
    if offline:
        first = "unset HF_HUB_OFFLINE and run again with a network"
    elif retryable:
        first = "check the network and run again (what has arrived is kept), or set HF_ENDPOINT"
        first += " to a hub within reach"
    else:
        first = "put right what is said above, or set HF_ENDPOINT to another hub"
    nano = next(known for known in MODELS.values() if known.repo is None).short_name
    return (
        "What you can do:\n"
        f"  1. {first}\n"
        f"  2. pass --weights FOLDER with a copy of {entry.repo} (its {WEIGHTS_FILE})\n"
        f"  3. choose --model {nano}, which ships with twolevers and needs no network"
    )


def check_local(entry: ModelEntry, weights: str) -> Path:
    """The path of local weights that fit the model, judged by their headers alone.

    Raises:
        InputError: everything about them that does not fit.
    """
    path = local_path(weights)
    files = weights_files(path)
    tensors = read_headers(path)
    problems = tensor_problems(path, entry.config, tensors)
    problems += _config_problems(entry, files[0].parent / CONFIG_FILE, tensors)
    if problems:
        raise InputError(problems)
    return path


def _local(entry: ModelEntry, weights: str, home: Home) -> WeightsFolder:
    path = check_local(entry, weights)
    files, tensors = weights_files(path), read_headers(path)
    head = head_problem(path, tensors)
    problems = [head] if head else []
    problems += _number_problems(path, files, tensors, home)
    if problems:
        raise InputError(problems)
    hashes = [known_sha256(file, home) for file in files]
    return WeightsFolder(
        model=entry.name,
        path=path,
        sha256=hashes[0] if len(hashes) == 1 else hash_of(hashes),
        source="local",
        verified="local file",
    )


def local_path(weights: str) -> Path:
    """The user's words as a path, or an error that knows what else people write there."""
    way_out = "give a folder with model.safetensors, or one .safetensors file"
    if not weights.strip() or "\0" in weights:
        raise InputError(Problem("weights", weights, "is no path", way_out))
    if "://" in weights:
        raise InputError(Problem("weights", weights, "is an address, not a path", way_out))
    try:
        path = Path(weights).expanduser().absolute()
    except RuntimeError:
        raise InputError(Problem("weights", weights, "names no user here", way_out)) from None
    for entry in MODELS.values():
        if not path.exists() and weights in (entry.repo, entry.short_name, entry.name):
            what = "is a model's name, not a folder on this disk"
            way_out = f"choose --model {entry.short_name} without --weights"
            raise InputError(Problem("weights", weights, what, way_out))
    return path


def _config_problems(
    entry: ModelEntry, file: Path, tensors: dict[str, StoredTensor]
) -> list[Problem]:
    """Where a `config.json` beside the weights contradicts the model. Heads have no shape of
    their own, so only this file tells 12 heads from 16."""
    if not file.is_file():
        return []
    try:
        values: dict[str, Any] = read_hf_config(file)
        config = config_from(values, file)
    except InputError as error:
        return list(error.problems)
    way_out = f"choose the model that these weights belong to, or give weights of {entry.name}"
    problems = [
        Problem(f"{file}: {name}", value, f"is {wanted} in {entry.name}", way_out)
        for name, value in config.to_dict().items()
        if name != "dropout" and value != (wanted := entry.config.to_dict()[name])
    ]
    if values.get("tie_word_embeddings") is False and HEAD not in map(our_name, tensors):
        what = f"says that the output layer is not the embedding, but there is no {HEAD}"
        problems.append(
            Problem(f"{file}: tie_word_embeddings", False, what, "give tied weights, or correct it")
        )
    return problems


def _number_problems(
    path: Path, files: list[Path], tensors: dict[str, StoredTensor], home: Home
) -> list[Problem]:
    """NaN or infinity in the user's own weights; looked for once a file."""
    unknown = [file for file in files if not is_known_good(file, home)]
    bad = not_finite(stored for stored in tensors.values() if stored.file in unknown)
    if bad:
        what = f"holds NaN or infinity in {some(bad)}"
        return [Problem("weights", str(path), what, "give weights whose training went well")]
    for file in unknown:
        mark_good(file, home)
    return []
