"""Bounds what oneDNN keeps of the products it has prepared.

oneDNN, which PyTorch computes bfloat16 with on a CPU, makes machine code for every shape and keeps
it for the next product of that shape: half a megabyte each, 1,024 of them, and PyTorch as many
again. Batches without padding hardly ever repeat a shape from one step to the next, so that most
of it lies there in vain, between blocks that are freed and cannot join: gpt2-nano's training took
1.9 GB instead of 1.0. Within a step every layer has the same shapes; those of a step are few.

float32 has its products from another library, which keeps nothing.
"""

from __future__ import annotations

import os

KEPT = 64
"""Above the shapes of a step: with 32 most would be made anew in every layer."""
BYTES = 90 * 2**20
"""What they take beside the same training in float32, as measured with gpt2-nano."""
_VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""oneDNN's own, and that of ideep, by which PyTorch calls it."""


def bound_primitives() -> None:
    """Both are read at the process's first such product, and not again. What the user has set in
    the environment is left alone."""
    for name in _VARIABLES:
        os.environ.setdefault(name, str(KEPT))
