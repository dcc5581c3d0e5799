"""Subnormal numbers: zero inside, in PyTorch's threads too; as ever outside."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import torch
from twolevers.subnormals import flushed_subnormals

def halves():  # of the smallest normal number; long enough that every thread takes a part
    return torch.full((1 << 22,), 2.0**-126).div_(2).count_nonzero().item() > 0

torch.set_num_threads(2)
with flushed_subnormals():
    with flushed_subnormals():
        inner = halves()
    outer = halves()
after = torch.full((), 2.0**-126).div_(2).item()
print(inner, outer, after)
"""


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64", "aarch64", "arm64"),
    reason="this processor may have no such setting",
)
def test_subnormals_count_as_zero_inside_and_not_afterwards():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    inner, outer, after = done.stdout.split()
    assert (inner, outer) == ("False", "False")
    assert float(after) == 2.0**-127
