"""The order of batches: same everywhere, different each epoch."""

import pytest
import torch

from twolevers.data.order import batch_order
from twolevers.errors import InputError


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def test_file_order() -> None:
    assert batch_order(5, 2, seed=None, epoch=3, drop_last=False) == [[0, 1], [2, 3], [4]]
    assert batch_order(5, 2, seed=None, epoch=3, drop_last=True) == [[0, 1], [2, 3]]
    assert batch_order(4, 2, seed=None, epoch=0, drop_last=True) == [[0, 1], [2, 3]]


def test_every_row_once_an_epoch_and_epochs_differ() -> None:
    first, second = (batch_order(20, 8, seed=1, epoch=e, drop_last=False) for e in (0, 1))
    assert [len(batch) for batch in first] == [8, 8, 4]
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(20))
    assert first != second
    assert first != batch_order(20, 8, seed=2, epoch=0, drop_last=False)
    # The chapter: 935 rows in batches of 8 are 116 steps.
    assert len(batch_order(935, 8, seed=123, epoch=0, drop_last=True)) == 116


def test_what_is_dropped_changes_with_the_epoch() -> None:
    left = {
        frozenset(range(9)) - set(flat(batch_order(9, 4, seed=5, epoch=e, drop_last=True)))
        for e in range(6)
    }
    assert len(left) > 1


def test_the_order_is_everywhere_the_same_and_moves_nothing_else() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    # Written out: another process, machine or version must make the same batches.
    assert batch_order(10, 4, seed=7, epoch=2, drop_last=False) == [
        [1, 0, 5, 4],
        [2, 8, 6, 3],
        [7, 9],
    ]
    assert torch.equal(before, torch.get_rng_state())


def test_a_batch_larger_than_the_split() -> None:
    with pytest.raises(InputError, match=r"--batch-size 16: the split has 9 rows.*at most 9"):
        batch_order(9, 16, seed=1, epoch=0, drop_last=True)
    assert len(batch_order(9, 16, seed=1, epoch=0, drop_last=False)) == 1
    with pytest.raises(InputError, match="no rows"):
        batch_order(0, 16, seed=1, epoch=0, drop_last=False)
