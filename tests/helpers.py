"""What tests of several rooms need: folders of weights as the world has them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from twolevers.models.catalog import GPT2Config

TINY = GPT2Config(emb_dim=32, num_layers=2, num_heads=4)
"""GPT-2 with the real vocabulary and context, and next to nothing else: 6.6 MB in float32."""


def random_tensors(config: GPT2Config, seed: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Published names and shapes, written out here once more, so that ours have a judge.

    Nothing is zero or one, biases and norms included, so that a swap of any two shows.
    """
    generator = torch.Generator().manual_seed(seed)
    c = config.emb_dim

    def draw(*shape: int, mean: float = 0.0, std: float = 0.05) -> Tensor:
        return (torch.randn(shape, generator=generator) * std + mean).to(dtype)

    tensors = {
        "wte.weight": draw(config.vocab_size, c),
        "wpe.weight": draw(config.context_length, c),
    }
    widths = {"attn.c_attn": (c, 3 * c), "attn.c_proj": (c, c)}
    widths |= {"mlp.c_fc": (c, 4 * c), "mlp.c_proj": (4 * c, c)}
    for layer in range(config.num_layers):
        for norm in ("ln_1", "ln_2"):
            tensors[f"h.{layer}.{norm}.weight"] = draw(c, mean=1.0, std=0.2)
            tensors[f"h.{layer}.{norm}.bias"] = draw(c)
        for part, (width_in, width_out) in widths.items():
            tensors[f"h.{layer}.{part}.weight"] = draw(width_in, width_out)
            tensors[f"h.{layer}.{part}.bias"] = draw(width_out)
    return tensors | {"ln_f.weight": draw(c, mean=1.0, std=0.2), "ln_f.bias": draw(c)}


def published_config(config: GPT2Config) -> dict[str, object]:
    """`config.json` as the published folders have it."""
    return {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1,
        "bos_token_id": config.vocab_size - 1,
        "embd_pdrop": 0.1,
        "eos_token_id": config.vocab_size - 1,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2",
        "n_ctx": config.context_length,
        "n_embd": config.emb_dim,
        "n_head": config.num_heads,
        "n_layer": config.num_layers,
        "n_positions": config.context_length,
        "resid_pdrop": 0.1,
        "vocab_size": config.vocab_size,
    }


def write_random_weights(
    folder: Path,
    config: GPT2Config = TINY,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    prefix: str = "",
    with_buffers: bool = False,
    shards: int = 1,
) -> Path:
    """A folder in the Hugging Face layout with random weights.

    Args:
        folder: made if it is not there.
        prefix: `""` as openai-community/gpt2 has it, or `"transformer."` as transformers saves.
        with_buffers: with the causal masks that older files carry.
        shards: more than one: an index and so many files.

    Returns:
        `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = random_tensors(config, seed, dtype)
    if with_buffers:
        length = config.context_length
        mask = torch.tril(torch.ones(length, length, dtype=dtype)).view(1, 1, length, length)
        for layer in range(config.num_layers):
            tensors[f"h.{layer}.attn.bias"] = mask.clone()
            tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4, dtype=dtype)
    stored = {prefix + name: tensor for name, tensor in tensors.items()}
    (folder / "config.json").write_text(json.dumps(published_config(config)), encoding="utf-8")
    if shards == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    names = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    weight_map = {key: names[i % shards] for i, key in enumerate(stored)}
    for name in names:
        part = {key: stored[key] for key, file in weight_map.items() if file == name}
        save_file(part, folder / name, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder
