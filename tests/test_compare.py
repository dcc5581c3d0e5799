"""What a difference between runs is put down to; figures worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pandas as pd
import pytest

from twolevers.commands import fine_tune_command
from twolevers.compare import Difference, along, differences, find_timed
from twolevers.errors import InputError
from twolevers.run_times import run_times
from twolevers.tracking import names
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.timings import COLUMNS

NANO, SMALL = "gpt2-nano (7M)", "gpt2-small (124M)"
XEON = {"device": "cpu", "hardware": "Xeon", "threads": 2, "precision": "float32"}
L4 = {"device": "cuda:0", "hardware": "L4", "threads": 8, "precision": "float32"}
NUMBERS = count(1)


def timing(
    model: str, seconds: float, place: dict[str, object], **other: object
) -> dict[str, object]:
    row = {"run_id": f"{next(NUMBERS):08d}", "model": model, "two_epoch_seconds": seconds}
    rest = {"core_version": "0.1.0", "fingerprint": "aaaa", "workload": {"batch_size": 8}}
    return dict.fromkeys(COLUMNS) | row | place | rest | other


def pairs(rows: Iterable[dict[str, object]], *others: dict[str, object]) -> list[Difference]:
    """The differences of `rows`; `others` are timed too, and not among the runs named."""
    rows = list(rows)
    runs = [
        RunInfo(
            run_id=str(row["run_id"]),
            params={
                "model": str(row["model"]),
                "device": str(row["device"]),
                "precision": str(row["precision"]),
                "batch_size": "8",
            },
        )
        for row in rows
    ]
    return differences(find_timed(pd.DataFrame([*rows, *others]), runs))


def test_only_the_model_differs() -> None:
    (found,) = pairs([timing(NANO, 50.0, XEON), timing(SMALL, 250.0, XEON)])
    assert (found.lever, found.ratio) == ("model", 5.0)
    assert found.text == (
        "The model, on Xeon, 2 threads, float32: gpt2-small (124M) takes 5.00 times as long as "
        "gpt2-nano (7M) (one run each: the spread is not known)."
    )


def test_the_ratio_is_of_medians_and_its_spread_of_all_runs() -> None:
    others = timing(NANO, 50.0, XEON), timing(NANO, 40.0, XEON)
    (found,) = pairs([timing(SMALL, 200.0, XEON), timing(NANO, 80.0, XEON)], *others)
    assert found.ratio == 4.0  # 200 / median(40, 50, 80)
    assert "4.00 times as long as gpt2-nano (7M) (2.50 to 5.00, of 1 and 3 runs)" in found.text


def test_only_the_device_differs() -> None:
    (found,) = pairs([timing(SMALL, 40.0, L4), timing(SMALL, 300.0, XEON)])
    assert (found.lever, found.ratio) == ("device", 7.5)
    assert "Xeon, 2 threads, float32 takes 7.50 times as long as L4, float32" in found.text
    threads = XEON | {"threads": 4}
    (found,) = pairs([timing(SMALL, 200.0, threads), timing(SMALL, 300.0, XEON)])
    assert found.lever == "device"


def test_same_device_in_another_precision_is_a_precision_ratio() -> None:
    half = L4 | {"precision": "bfloat16"}
    (found,) = pairs([timing(SMALL, 20.0, half), timing(SMALL, 30.0, L4)])
    assert (found.lever, found.ratio) == ("precision", 1.5)
    assert "float32 takes 1.50 times as long as bfloat16" in found.text


def test_device_and_precision_both_is_said_with_the_command_for_equal_precision() -> None:
    half = L4 | {"precision": "bfloat16"}
    (found,) = pairs([timing(SMALL, 20.0, half), timing(SMALL, 300.0, XEON)])
    assert found.lever == "device and precision"
    assert "Their shares are not known." in found.text
    assert found.command == (
        "twolevers fine-tune --model 'gpt2-small (124M)' --device cuda:0 --precision float32"
    )


def test_model_and_device_both_cannot_be_attributed() -> None:
    small, nano = timing(SMALL, 40.0, L4), timing(NANO, 50.0, XEON)
    (found,) = pairs([small, nano])
    assert (found.lever, found.ratio) == ("both", None)
    assert found.text.startswith("Not attributable: model and device both differ")
    # The faster run's model on the slower one's device parts the two.
    assert found.command == (
        "twolevers fine-tune --model 'gpt2-small (124M)' --device cpu --precision float32"
    )
    between = timing(SMALL, 300.0, XEON)
    by_lever = {one.lever: one for one in pairs([small, between, nano])}
    assert set(by_lever) == {"device", "both", "model"}
    assert by_lever["both"].command is None
    assert "Step by step over gpt2-small (124M) on Xeon" in by_lever["both"].text


def test_neither_lever_differs() -> None:
    (found,) = pairs([timing(NANO, 50.0, XEON), timing(NANO, 60.0, XEON)])
    assert (found.lever, found.ratio) == ("neither", 1.0), "both are runs of one cell"


def test_another_workload_or_version_is_said() -> None:
    other = {"fingerprint": "bbbb", "workload": {"batch_size": 4}}
    (found,) = pairs([timing(NANO, 50.0, XEON), timing(SMALL, 60.0, XEON, **other)])
    assert (found.lever, found.ratio) == ("workload", None)
    assert "batch_size: 8, not 4" in found.text
    (found,) = pairs([timing(NANO, 50.0, XEON), timing(SMALL, 60.0, XEON, core_version="0.2.0")])
    assert "The code differs too: versions 0.1.0 and 0.2.0." in found.text


def test_runs_without_a_time_are_all_named() -> None:
    timings = pd.DataFrame([timing(NANO, 50.0, XEON)])
    with pytest.raises(InputError) as refused:
        find_timed(timings, [RunInfo("lost"), RunInfo("gone")])
    assert [problem.value for problem in refused.value.problems] == ["lost", "gone"]
    with pytest.raises(InputError, match="name two"):
        find_timed(timings, [RunInfo(str(timings["run_id"][0]))] * 2)


def test_the_command_repeats_what_was_no_default() -> None:
    params = {
        "model": NANO, "device": "cpu", "precision": "float32", "dataset": "my data.json",
        "learning_rate": "0.001", "drop_last": "False", "batch_size": "4", "seed": "123",
        "weights": "/w", "threads": "None",
    }  # fmt: skip
    assert fine_tune_command(params, device="cuda") == (
        "twolevers fine-tune --model 'gpt2-nano (7M)' --device cuda --precision float32 "
        "--dataset 'my data.json' --weights /w --batch-size 4 --no-drop-last"
    )
    assert "--weights" not in fine_tune_command(params, model=SMALL)
    assert "--learning-rate 0.001" in fine_tune_command(params | {"model": SMALL})


def test_a_classification_is_repeated_as_one() -> None:
    params = {"model": NANO, "device": "cpu", "precision": "float32", "dataset": "messages"}
    params |= {"train": "lora", "balanced": "False", "epochs": "5"}
    rows = [timing(NANO, 50.0, XEON), timing(NANO, 5.0, L4 | {"precision": "bfloat16"})]
    tags = {names.KIND: names.CLASSIFY}
    runs = [RunInfo(run_id=str(row["run_id"]), params=params, tags=tags) for row in rows]
    (found,) = differences(find_timed(pd.DataFrame(rows), runs))
    assert found.command == (
        "twolevers classify --model 'gpt2-nano (7M)' --device cuda:0 --precision float32 "
        "--no-balanced --train lora"
    )


def test_a_table_is_read_along_its_rows_and_down_its_columns() -> None:
    half = L4 | {"precision": "bfloat16"}
    rows = [timing(NANO, 50.0, XEON), timing(SMALL, 250.0, XEON), timing(SMALL, 25.0, half)]
    table = run_times(pd.DataFrame(rows), "aaaa")
    (row,) = along(table, "row")
    assert row.sentence == (
        "gpt2-small (124M): L4, bfloat16 is the fastest; Xeon, 2 threads, float32 10.0 times as "
        "long. Precisions differ."
    )
    (column,) = along(table, "column")
    assert [(label, cell.seconds) for label, cell in column.bars] == [(NANO, 50.0), (SMALL, 250.0)]
    assert column.sentence == (
        "Xeon, 2 threads, float32: gpt2-nano (7M) is the fastest; gpt2-small (124M) 5.0 times as "
        "long."
    )
