"""Kinds that work on lists and numbers."""

from __future__ import annotations

from random import Random

from twolevers.embedded import vocabulary as words
from twolevers.embedded.kinds.base import Example, Kind

_WORDS = tuple(sorted({word for family in words.FAMILIES.values() for word in family}))
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven")


def _list(rng: Random, low: int, high: int) -> list[str]:
    return rng.sample(_WORDS, rng.randint(low, high))


def _count(rng: Random) -> Example:
    items = _list(rng, 2, 6)
    return Example(", ".join(items), f"The list has {NUMBERS[len(items)]} items.")


def _first(rng: Random) -> Example:
    items = _list(rng, 3, 5)
    return Example(", ".join(items), items[0])


def _last(rng: Random) -> Example:
    items = _list(rng, 3, 5)
    return Example(", ".join(items), items[-1])


def _reverse(rng: Random) -> Example:
    items = _list(rng, 3, 3)
    return Example(", ".join(items), ", ".join(reversed(items)))


def _alphabetical(rng: Random) -> Example:
    items = _list(rng, 3, 3)
    return Example(", ".join(items), ", ".join(sorted(items)))


def _odd(rng: Random) -> Example:
    family, other = rng.sample(tuple(words.FAMILIES.values()), 2)
    odd = rng.choice(other)
    items = [*rng.sample(family, 3), odd]
    rng.shuffle(items)
    return Example(", ".join(items), odd)


def _larger(rng: Random) -> Example:
    low, high = sorted(rng.sample(range(1, 100), 2))
    pair = [low, high]
    rng.shuffle(pair)
    return Example(f"{pair[0]} and {pair[1]}", f"{high} is larger than {low}.")


KINDS = (
    Kind(
        "count_items",
        _count,
        (
            "Count the items in the list.",
            "How many items does the list have?",
            "Give the number of items in this list.",
        ),
        ("the count of items in a list", "how many items a list has", "the number of items"),
        ("{x}: {y}", "Here are some items: {x}. {y}", "How many items are these: {x}. {y}"),
    ),
    Kind(
        "first_item",
        _first,
        (
            "Name the first item of the list.",
            "Which item comes first in the list?",
            "What stands first in this list?",
        ),
        ("the first item of a list", "the item that comes first", "what stands first in a list"),
        ("In the list {x} the first item is: {y}", "{x}. What comes first: {y}"),
    ),
    Kind(
        "last_item",
        _last,
        (
            "Name the last item of the list.",
            "Which item comes last in the list?",
            "What stands last in this list?",
        ),
        ("the last item of a list", "the item that comes last", "what stands last in a list"),
        ("In the list {x} the last item is: {y}", "{x}. What comes last: {y}"),
    ),
    Kind(
        "reverse_list",
        _reverse,
        (
            "Reverse the order of the list.",
            "Write the list backwards.",
            "Give the items in reverse order.",
        ),
        ("a list in reverse order", "a list backwards", "the items in reverse"),
        ("The list {x} in reverse order: {y}", "{x}. The same backwards: {y}"),
    ),
    Kind(
        "alphabetical",
        _alphabetical,
        (
            "Sort the words in alphabetical order.",
            "Put these words in alphabetical order.",
            "Order the list from A to Z.",
        ),
        ("words in alphabetical order", "a list in alphabetical order", "a list from A to Z"),
        ("The words {x} in alphabetical order: {y}", "{x}. The same from A to Z: {y}"),
        asked=False,
    ),
    Kind(
        "odd_one_out",
        _odd,
        (
            "Find the odd one out.",
            "Which word does not belong with the others?",
            "Name the word that is different from the others.",
        ),
        ("the odd one out", "a word that does not belong", "the word different from the others"),
        ("Among {x} the odd one out is: {y}", "{x}. The one that does not belong: {y}"),
        asked=False,
    ),
    Kind(
        "larger_number",
        _larger,
        (
            "Which number is larger?",
            "Compare the two numbers.",
            "Say which of the numbers is larger.",
        ),
        ("which number is larger", "two numbers compared", "the larger of two numbers"),
        ("Of {x}, the larger comes first: {y}", "{x} are two numbers. {y}"),
        asked=False,
    ),
)
