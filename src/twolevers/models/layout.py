"""The Hugging Face layout of a GPT-2 folder: names, shapes and `config.json`, both ways.

The only place that knows how the published files differ from our module: they may carry the
prefix `transformer.`, hold the causal mask as a buffer, and store the four projections of a
block as (in, out) where `nn.Linear` has (out, in).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from twolevers.errors import InputError, Problem
from twolevers.models.catalog import GPT2Config

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CONFIG_FILE = "config.json"
HEAD = "lm_head.weight"
PREFIX = "transformer."

_MASK_BUFFER = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")
_PROJECTION = re.compile(r"h\.\d+\.(attn|mlp)\.c_\w+\.weight")
_SIZES = {
    "n_embd": "emb_dim",
    "n_layer": "num_layers",
    "n_head": "num_heads",
    "vocab_size": "vocab_size",
    "n_positions": "context_length",
}
_SAME_GELU = ("gelu_new", "gelu_pytorch_tanh")


def our_name(key: str) -> str | None:
    """The parameter that a stored key means; None for the mask buffers of older files."""
    name = key.removeprefix(PREFIX)
    return None if _MASK_BUFFER.fullmatch(name) else name


def is_transposed(name: str) -> bool:
    """Whether the file holds this parameter as (in, out)."""
    return _PROJECTION.fullmatch(name) is not None


def stored_shapes(config: GPT2Config) -> dict[str, tuple[int, ...]]:
    """Every parameter's shape as it lies in a file, by our name."""
    c = config.emb_dim
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (config.vocab_size, c),
        "wpe.weight": (config.context_length, c),
        "ln_f.weight": (c,),
        "ln_f.bias": (c,),
    }
    for layer in range(config.num_layers):
        for part, width_in, width_out in (
            ("attn.c_attn", c, 3 * c),
            ("attn.c_proj", c, c),
            ("mlp.c_fc", c, 4 * c),
            ("mlp.c_proj", 4 * c, c),
        ):
            shapes[f"h.{layer}.{part}.weight"] = (width_in, width_out)
            shapes[f"h.{layer}.{part}.bias"] = (width_out,)
        for norm in ("ln_1", "ln_2"):
            shapes[f"h.{layer}.{norm}.weight"] = (c,)
            shapes[f"h.{layer}.{norm}.bias"] = (c,)
    return shapes


def hf_config(config: GPT2Config) -> dict[str, Any]:
    """`config.json` of a folder that transformers loads."""
    sizes = {theirs: getattr(config, ours) for theirs, ours in _SIZES.items()}
    end_of_text = config.vocab_size - 1
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **sizes,
        "n_ctx": config.context_length,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "attn_pdrop": 0.0,
        "embd_pdrop": config.dropout,
        "resid_pdrop": config.dropout,
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "dtype": "float32",
    }


def read_hf_config(file: Path) -> dict[str, Any]:
    """`config.json` as it stands.

    Raises:
        InputError: not there, unreadable, or no JSON object.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            Problem("weights", str(file), f"cannot be read ({error.strerror})", "add the file")
        ) from None
    except json.JSONDecodeError as error:
        where = f"is no JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        raise InputError(Problem("weights", str(file), where, "correct it")) from None
    except UnicodeDecodeError:
        raise InputError(Problem("weights", str(file), "is no UTF-8 text", "correct it")) from None
    if not isinstance(value, dict):
        raise InputError(Problem("weights", str(file), "is no JSON object", "correct it"))
    return value


def config_from(values: dict[str, Any], file: Path) -> GPT2Config:
    """The sizes that a `config.json` states.

    Raises:
        InputError: a size is missing or no count, or the file describes another
            architecture than the GPT-2 computed here.
    """
    problems = [_problem(file, key, values[key], what) for key, what in _differences(values)]
    sizes: dict[str, int] = {}
    for theirs, ours in _SIZES.items():
        value = values.get(theirs, values.get("n_ctx") if theirs == "n_positions" else None)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 10**6:
            what = "is missing" if value is None else "is no whole number from 1 to 999,999"
            problems.append(_problem(file, theirs, value, what))
        else:
            sizes[ours] = value
    if not problems and sizes["emb_dim"] % sizes["num_heads"]:
        what = f"does not divide n_embd {sizes['emb_dim']}"
        problems.append(_problem(file, "n_head", sizes["num_heads"], what))
    if problems:
        raise InputError(problems)
    return GPT2Config(**sizes)


def _differences(values: dict[str, Any]) -> list[tuple[str, str]]:
    """What a config says that would make the same weights compute something else."""
    found = []
    if values.get("model_type", "gpt2") != "gpt2":
        found.append(("model_type", "is another architecture than gpt2"))
    if values.get("activation_function", "gelu_new") not in _SAME_GELU:
        found.append(("activation_function", "is not GPT-2's gelu_new"))
    if values.get("layer_norm_epsilon", 1e-5) != 1e-5:
        found.append(("layer_norm_epsilon", "is not GPT-2's 1e-5"))
    width = values.get("n_embd")
    if values.get("n_inner") not in (None, 4 * width if isinstance(width, int) else None):
        found.append(("n_inner", "is not four times n_embd"))
    if not values.get("scale_attn_weights", True):
        found.append(("scale_attn_weights", "turns off the scaling that GPT-2 has"))
    for key in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        if values.get(key):
            found.append((key, "is not what GPT-2 has"))
    return found


def _problem(file: Path, key: str, value: object, what: str) -> Problem:
    way_out = "give a folder with weights of GPT-2 itself, or correct the file"
    return Problem(f"{file}: {key}", value, what, way_out)
