"""Our GPT-2 against transformers' on the same random weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import TINY, write_random_weights
from torch import Tensor
from transformers import GPT2LMHeadModel

from twolevers.models.attention import causal_within
from twolevers.models.catalog import MODELS, GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model

SIZES = {
    "narrow heads": TINY,
    "one layer": GPT2Config(emb_dim=48, num_layers=1, num_heads=3, vocab_size=101),
    "deep": GPT2Config(emb_dim=24, num_layers=7, num_heads=2, vocab_size=300, context_length=64),
    "one head": GPT2Config(emb_dim=40, num_layers=2, num_heads=1, vocab_size=77),
}
PUBLISHED = {
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}


def packed_logits(model: GPT2, sequences: list[Tensor]) -> list[Tensor]:
    """Each sequence's logits (T, V), computed end to end in one pass."""
    lengths = [len(sequence) for sequence in sequences]
    positions = torch.cat([torch.arange(length) for length in lengths])
    with torch.no_grad():
        hidden = model(torch.cat(sequences), positions, causal_within(lengths))
        return list(model.logits(hidden).split(lengths))


def random_sequences(config: GPT2Config, *lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(config.vocab_size, (length,), generator=generator) for length in lengths]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_number_of_parameters(name: str) -> None:
    entry = next(entry for entry in MODELS.values() if entry.short_name == name)
    with torch.device("meta"):
        model = GPT2(entry.config)
    assert model.num_parameters() == PUBLISHED[name] == entry.config.num_parameters


@pytest.mark.parametrize("config", SIZES.values(), ids=SIZES)
def test_logits_equal_those_of_transformers(config: GPT2Config, tmp_path: Path) -> None:
    folder = write_random_weights(tmp_path / "weights", config, seed=3)
    theirs = GPT2LMHeadModel.from_pretrained(folder).eval()
    ours = load_model(folder).eval()
    sequences = random_sequences(config, 1, 17, 5, 64)
    for sequence, logits in zip(sequences, packed_logits(ours, sequences), strict=True):
        with torch.no_grad():
            expected = theirs(sequence.unsqueeze(0)).logits[0]
        assert expected.std() > 0.05  # weights under which a mistake would show
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


def test_positions_up_to_the_last_of_the_context(tmp_path: Path) -> None:
    folder = write_random_weights(tmp_path / "weights", SIZES["one head"])
    sequence = random_sequences(SIZES["one head"], 1024)
    with torch.no_grad():
        expected = GPT2LMHeadModel.from_pretrained(folder).eval()(sequence[0][None]).logits[0]
    logits = packed_logits(load_model(folder), sequence)[0]
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


def test_a_sequence_does_not_see_its_neighbours(tiny_folder: Path) -> None:
    model = load_model(tiny_folder)
    first, middle, last = random_sequences(TINY, 9, 30, 4)
    alone = packed_logits(model, [middle])[0]
    between = packed_logits(model, [first, middle, last])[1]
    other_order = packed_logits(model, [last.flip(0), first, middle])[2]
    torch.testing.assert_close(between, alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(other_order, alone, atol=1e-5, rtol=0)


def test_greedy_continuations_equal_those_of_transformers(tmp_path: Path) -> None:
    config = SIZES["deep"]
    folder = write_random_weights(tmp_path / "weights", config, seed=5)
    theirs, ours = GPT2LMHeadModel.from_pretrained(folder).eval(), load_model(folder)
    for prompt in random_sequences(config, 1, 6, 23):
        expected = theirs.generate(
            prompt[None],
            attention_mask=torch.ones_like(prompt)[None],
            max_new_tokens=20,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )[0]
        ids = prompt
        for _ in range(20):
            ids = torch.cat([ids, packed_logits(ours, [ids])[0][-1].argmax()[None]])
        assert ids.tolist() == expected.tolist()


def test_gradient_checkpointing_gives_the_same_gradients(tiny_folder: Path) -> None:
    gradients = []
    for checkpointing in (False, True):
        model = load_model(tiny_folder, gradient_checkpointing=checkpointing).train()
        ids = torch.arange(12)
        hidden = model(ids, torch.arange(12), causal_within([12]))
        torch.nn.functional.cross_entropy(model.logits(hidden)[:-1], ids[1:]).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, saved in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, saved)


def test_initial_weights_repeat_and_follow_the_paper() -> None:
    config = GPT2Config(emb_dim=64, num_layers=8, num_heads=4, vocab_size=500)
    first, again, other = (GPT2(config).initialise(seed) for seed in (7, 7, 8))
    same = zip(first.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in same)
    assert not torch.equal(first.wte.weight, other.wte.weight)
    weights = first.state_dict()
    assert weights["wte.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert weights["h.3.mlp.c_proj.weight"].std().item() == pytest.approx(0.005, rel=0.05)
    assert weights["h.3.ln_1.weight"].eq(1).all()
    assert weights["h.3.mlp.c_fc.bias"].eq(0).all()
