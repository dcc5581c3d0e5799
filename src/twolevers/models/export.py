"""A checkpoint for other programs: a folder for transformers, a GGUF file for llama.cpp.

Both hold float32, the same numbers as the checkpoint. The GGUF file is what llama.cpp's own
converter makes of a GPT-2 folder: the same names and metadata, the output layer left out because
it is the embedding. Either carries the run's prompt style as a chat template, so that a chat
becomes the prompt that the model was trained with.
"""

from __future__ import annotations

import errno
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twolevers.data.chat_template import chat_template
from twolevers.errors import (
    NO_ROOM,
    InputError,
    Problem,
    TwoleversError,
    did_you_mean,
    no_room,
)
from twolevers.files import atomic_file, atomic_folder
from twolevers.models.catalog import VOCAB_SIZE, GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.layout import CONFIG_FILE, PREFIX, WEIGHTS_FILE
from twolevers.models.weights import load_model, save_model, vocabulary_file

CHAT_TEMPLATE_FILE = "chat_template.jinja"
FORMATS = {"hf": "a folder that transformers loads", "gguf": "a file that llama.cpp loads"}
_END_OF_TEXT = VOCAB_SIZE - 1


def export_model(
    checkpoint: Path,
    form: str,
    output: Path,
    *,
    name: str,
    prompt_style: str | None = None,
    force: bool = False,
) -> None:
    """Write a checkpoint to `output`, whole or not at all.

    Args:
        checkpoint: folder in the Hugging Face layout.
        form: one of `FORMATS`.
        name: how the model is called in the file.
        prompt_style: the one that it was trained with; None: no chat template is written.
        force: replace what is there.

    Raises:
        InputError: no such format or prompt style, weights that cannot be read, a vocabulary that
            is not GPT-2's, or an output that is there already or cannot be written.
        TwoleversError: the package `gguf` is not installed; there is no room.
    """
    problems = list(_problems(checkpoint, form, output, force))
    if problems:
        raise InputError(problems)
    library = _gguf() if form == "gguf" else None
    template = chat_template(prompt_style) if prompt_style else None
    model = load_model(checkpoint)
    if model.config.vocab_size != VOCAB_SIZE:
        what = f"has {model.config.vocab_size:,} tokens, where GPT-2 has {VOCAB_SIZE:,}"
        raise InputError(Problem("--run", str(checkpoint), what, "export a model of GPT-2's size"))
    try:
        if library is None:
            with atomic_folder(output) as folder:
                save_model(model, folder)
                if template:
                    (folder / CHAT_TEMPLATE_FILE).write_bytes(template.encode("utf-8"))
        else:
            with atomic_file(output) as file:
                _write_gguf(library, model, file, name, template)
    except OSError as error:
        if error.errno is None:  # numpy says only how much was to be written and how much was
            raise no_room(OSError(errno.ENOSPC, str(error), str(output))) from error
        error.filename = str(output)
        if error.errno in NO_ROOM:
            raise
        raise InputError(_unwritable(output, error)) from error


def _problems(checkpoint: Path, form: str, output: Path, force: bool) -> Iterator[Problem]:
    if form not in FORMATS:
        what = f"no such format{did_you_mean(form, FORMATS)}"
        listed = ", ".join(f"{known} ({about})" for known, about in FORMATS.items())
        yield Problem("--format", form, what, f"choose one of: {listed}")
    try:
        source, place, there = checkpoint.resolve(), output.resolve(), output.exists()
        # What --force takes away must at least be what it puts there.
        replaceable = not there or form not in FORMATS or _replaceable(output, form)
    except (OSError, RuntimeError) as error:  # a name too long, a folder not to be read, a loop
        yield _unwritable(output, error)
        return
    if place == source:
        yield Problem("--output", str(output), "is the checkpoint itself", "name another folder")
    elif there and place in source.parents:
        what = "is there already and holds the checkpoint"
        yield Problem("--output", str(output), what, "name another")
    elif there and not force:
        what = "is there already"
        yield Problem("--output", str(output), what, "name another, or add --force")
    elif not replaceable:
        what = f"is there already and is not {FORMATS[form]}"
        yield Problem("--output", str(output), what, "name another")


def _unwritable(output: Path, error: OSError | RuntimeError) -> Problem:
    what = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    return Problem("--output", str(output), what, "name another")


def _replaceable(output: Path, form: str) -> bool:
    if form == "gguf":
        if not output.is_file():
            return False
        with output.open("rb") as file:
            return file.read(4) in (b"GGUF", b"")
    is_model = (output / CONFIG_FILE).is_file() and (output / WEIGHTS_FILE).is_file()
    return output.is_dir() and (is_model or not any(output.iterdir()))


def _gguf() -> Any:
    try:
        return importlib.import_module("gguf")
    except ModuleNotFoundError:
        raise TwoleversError(
            "The package gguf, which writes this format, is not installed. Install it: "
            "pip install 'twolevers[export]'"
        ) from None


def _write_gguf(gguf: Any, model: GPT2, file: Path, name: str, template: str | None) -> None:
    """As `convert_hf_to_gguf.py` of llama.cpp does for `GPT2LMHeadModel`."""
    config = model.config
    architecture = gguf.MODEL_ARCH.GPT2
    writer = gguf.GGUFWriter(file, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_name(name)
    _add_sizes(gguf, writer, config)
    _add_vocabulary(gguf, writer)
    if template:
        writer.add_chat_template(template)
    names = gguf.get_tensor_name_map(architecture, config.num_layers)
    for ours, tensor in model.state_dict().items():
        theirs = names.get_name(PREFIX + ours, try_suffixes=(".weight", ".bias"))
        # (out, in), as nn.Linear has it and as GGUF wants it.
        writer.add_tensor(theirs, tensor.float().contiguous().numpy())
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_sizes(gguf: Any, writer: Any, config: GPT2Config) -> None:
    writer.add_block_count(config.num_layers)
    writer.add_context_length(config.context_length)
    writer.add_embedding_length(config.emb_dim)
    writer.add_feed_forward_length(4 * config.emb_dim)
    writer.add_head_count(config.num_heads)
    writer.add_layer_norm_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _add_vocabulary(gguf: Any, writer: Any) -> None:
    vocabulary = json.loads(vocabulary_file("encoder.json").read_text(encoding="utf-8"))
    tokens = sorted(vocabulary, key=lambda token: int(vocabulary[token]))
    merges = vocabulary_file("vocab.bpe").read_text(encoding="utf-8").splitlines()[1:]
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([control if i == _END_OF_TEXT else normal for i in range(VOCAB_SIZE)])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(_END_OF_TEXT)
    writer.add_eos_token_id(_END_OF_TEXT)
    writer.add_unk_token_id(_END_OF_TEXT)
    # A prompt begins with its own first token, as in training.
    writer.add_add_bos_token(False)
