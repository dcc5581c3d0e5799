"""A model of 97 tokens to classify with, and texts as tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import one_thread, tiny_weights
from toy import Toy

__all__ = ["one_thread", "tiny_weights"]  # fixtures of this folder too


@pytest.fixture
def toy(tmp_path: Path, tiny_weights: Path) -> Toy:
    return Toy(tmp_path, tiny_weights)
