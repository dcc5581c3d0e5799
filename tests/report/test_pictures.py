"""Pictures of names that people give: drawn as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from twolevers.report.classification_pictures import confusion_picture, reliability_picture
from twolevers.report.pictures import loss_curve

PNG = b"\x89PNG\r\n\x1a\n"
FORMULA = "$5 to $10 $_{$"
"""Between two dollar signs matplotlib reads a formula, and this is none."""


@pytest.mark.parametrize("labels", [["$_{$", FORMULA], [str(n) for n in range(200)]])
def test_any_label_can_be_drawn(tmp_path: Path, labels: list[str]) -> None:
    counts = [[int(row == column) for column in range(len(labels))] for row in range(len(labels))]
    picture = confusion_picture(tmp_path / "a.png", counts, labels, title=f"/data/{FORMULA}.csv")
    assert picture.read_bytes().startswith(PNG)


def test_any_name_can_stand_in_a_title(tmp_path: Path) -> None:
    points = [(1, 2.0), (2, 1.0)]
    curve = loss_curve(
        tmp_path / "b.png", train=points, val=points, tokens_per_step=8, title=FORMULA
    )
    assert curve.read_bytes().startswith(PNG)
    bins = [{"low": 0.0, "high": 0.1, "count": 1, "confidence": 0.05, "accuracy": 1.0}]
    assert reliability_picture(tmp_path / "c.png", bins, title=FORMULA).read_bytes().startswith(PNG)
