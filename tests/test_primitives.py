"""oneDNN keeps a bounded number of prepared products, as many as the user says if he says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import torch
from twolevers.computing import computing

with computing(), torch.no_grad():
    for length in [*range(100, 300), 299, 100]:
        torch.ones(length, 64, dtype=torch.bfloat16) @ torch.ones(64, 32, dtype=torch.bfloat16)
"""


def prepared(**environment: str) -> list[str]:
    """The program's products in order: `cache_hit` or `cache_miss`, as oneDNN tells."""
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**kept, "ONEDNN_VERBOSE": "2", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(",") for line in done.stdout.splitlines() if ",create:" in line]
    found = [line[3].removeprefix("create:") for line in lines if "matmul" in line]
    if not found:
        pytest.skip("PyTorch does not compute bfloat16 with oneDNN on this processor")
    return found


def test_products_of_long_ago_are_forgotten() -> None:
    found = prepared()
    assert found.count("cache_miss") == 201  # the last shape was there, the first was not
    assert found[-1] == "cache_miss"


def test_the_users_own_bounds_stay() -> None:
    own = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1024", "LRU_CACHE_CAPACITY": "1024"}
    assert prepared(**own).count("cache_miss") == 200
