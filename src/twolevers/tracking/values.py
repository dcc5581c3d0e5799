"""Keys and values as MLflow takes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

MAX_PARAM, MAX_TAG, MAX_KEY = 6000, 5000, 250
"""Longest values and keys, in characters."""


def clean_key(key: str) -> str:
    """A key as MLflow takes it: other signs become `_`."""
    key = re.sub(r"[^\w\-. /:]", "_", str(key), flags=re.ASCII)
    parts = [part for part in key.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[:MAX_KEY].strip() or "_"


def cut(text: object, limit: int) -> str:
    """A value as text, cut with `…` where it is longer than MLflow keeps."""
    shown = str(text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def finite(value: object) -> float | None:
    """A finite number, or None."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def leftover_entries(
    metrics: list[Any], params: Mapping[str, str], tags: Mapping[str, str]
) -> list[dict[str, Any]]:
    """As leftovers are written."""
    return [
        *(
            {"kind": "metric", "key": m.key, "value": m.value}
            | {"timestamp": m.timestamp, "step": m.step}
            for m in metrics
        ),
        *({"kind": "param", "key": key, "value": value} for key, value in params.items()),
        *({"kind": "tag", "key": key, "value": text} for key, text in tags.items()),
    ]
