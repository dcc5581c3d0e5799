"""Small models whose every parameter is random, and prompts of unequal length for them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from helpers import write_random_weights

from twolevers.models.catalog import GPT2Config
from twolevers.models.gpt2 import GPT2
from twolevers.models.weights import load_model

SMALL = GPT2Config(emb_dim=32, num_layers=3, num_heads=4, vocab_size=211, context_length=96)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_weights(tmp_path_factory.mktemp("weights") / "small", SMALL, seed=5)


@pytest.fixture(scope="session")
def model(folder: Path) -> GPT2:
    return load_model(folder).eval()


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    """24 prompts of 1 to 60 tokens, in no order of length."""
    chance = random.Random(2)
    return [
        [chance.randrange(SMALL.vocab_size) for _ in range(chance.randint(1, 60))]
        for _ in range(24)
    ]
