"""The search for garbage pauses during imports, and only then."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from importlib import import_module

import pytest

from flows.quick_imports import quick_imports


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_search_goes_on_after_the_block_even_when_an_import_fails() -> None:
    with pytest.raises(ImportError), quick_imports():
        import_module("twolevers.no_such_module")
    assert gc.isenabled()


def test_what_the_block_made_is_searched_no_more_what_comes_later_is() -> None:
    with quick_imports():
        made = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= len(made)
    later: list[object] = []
    assert any(found is later for found in gc.get_objects())
    assert not any(found is made for found in gc.get_objects())
