import pytest

from twolevers.fingerprint import (
    fingerprint_differences,
    fingerprint_parts,
    workload_fingerprint,
)
from twolevers.options import FineTuneOptions, build_options

DATA = "ab" * 32


def print_of(data: str = DATA, **given: object) -> str:
    return workload_fingerprint(build_options(given, {}), data)


@pytest.mark.parametrize(
    "given",
    [
        {"split": "shuffled"},
        {"drop_duplicates": True},
        {"map": "output=answer"},
        {"drop_last": False},
        {"epochs": 3},
        {"batch_size": 4},
        {"gradient_accumulation_steps": 2},
        {"max_length": 512},
        {"prompt_style": "phi3"},
        {"loss_on": "response"},
        {"eval_every": 10},
        {"eval_batches": 1},
        {"gradient_checkpointing": True},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_makes_two_timings_incomparable_changes_it(given: dict[str, object]) -> None:
    assert print_of(**given) != print_of()


@pytest.mark.parametrize(
    "given",
    [
        {"model": "gpt2-xl"},
        {"device": "cuda:3"},
        {"precision": "bfloat16"},
        {"threads": 7},
        {"seed": 5},
        {"learning_rate": 1.0},
        {"weights": "/elsewhere"},
        {"dataset": "other-name-of-the-same-file.json"},
        {"keep_checkpoints": 9},
        {"checkpoint_every": 3},
        {"max_new_tokens": 1},
    ],
    ids=lambda given: next(iter(given)),
)
def test_levers_and_what_only_changes_results_do_not(given: dict[str, object]) -> None:
    assert print_of(**given) == print_of()


def test_data_and_task_change_it() -> None:
    assert print_of("cd" * 32) != print_of()
    options = FineTuneOptions()
    assert workload_fingerprint(options, DATA, "spam") != workload_fingerprint(options, DATA)


def test_the_seed_counts_only_where_it_decides_the_split() -> None:
    shuffled = {"split": "shuffled"}
    assert print_of(**shuffled, seed=5) != print_of(**shuffled)


def test_stays_the_same_from_one_version_to_the_next() -> None:
    # A change here parts every run tracked so far from all later ones.
    assert print_of() == "bc40978f533878e5"


def test_says_how_two_workloads_differ() -> None:
    one = fingerprint_parts(build_options({"batch_size": 8}, {}), DATA)
    other = fingerprint_parts(build_options({"batch_size": 4, "epochs": 1}, {}), DATA)
    assert fingerprint_differences(one, other) == ["epochs: 2, not 1", "batch_size: 8, not 4"]
    assert fingerprint_differences(one, one) == []
    other_data = one | {"data": "0123456789abcdef" * 4}
    assert fingerprint_differences(other_data, one)[0].startswith("data: 01234567, not ")
    spam = {"task": "spam", "epochs": 5, "cut": "keep the start"}
    assert fingerprint_differences(spam, one) == [
        "task: spam, not instructions",
        "epochs: 5, not 2",
    ]
