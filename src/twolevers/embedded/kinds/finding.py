"""Kinds that find something in a text: who, what, where, when."""

from __future__ import annotations

from random import Random

from twolevers.embedded import vocabulary as words
from twolevers.embedded.grammar import action, capital
from twolevers.embedded.kinds.base import Example, Kind


def _actor(rng: Random) -> Example:
    act = action(rng, where=0.5, when=0.3)
    text = act.passive() if rng.random() < 0.4 else act.past()
    return Example(text, capital(act.person.text))


def _thing(rng: Random) -> Example:
    act = action(rng, where=0.5, when=0.3)
    text = act.passive() if rng.random() < 0.4 else act.past()
    return Example(text, capital(act.thing))


def _place(rng: Random) -> Example:
    act = action(rng, where=1, when=0.5)
    return Example(act.past(), capital(act.where))


def _time(rng: Random) -> Example:
    act = action(rng, where=0.5, when=1)
    return Example(act.past(), capital(act.when))


CITIES = (
    "Paris", "Rome", "London", "Berlin", "Madrid", "Vienna", "Oslo", "Dublin", "Athens", "Cairo",
)  # fmt: skip


def _home(rng: Random) -> Example:
    people = rng.sample(words.WOMEN + words.MEN, 2)
    cities = rng.sample(CITIES, 2)
    told = [f"{who} lives in {city}." for who, city in zip(people, cities, strict=True)]
    asked = rng.randrange(2)
    return Example(" ".join(told), told[asked], people[asked])


KINDS = (
    Kind(
        "find_actor",
        _actor,
        (
            "Who performs the action in this sentence?",
            "Name the person who acts in the sentence.",
            "Find who does something in the sentence.",
        ),
        ("who performs the action", "the person who acts", "who does something in a sentence"),
        (
            'In "{x}" the one who performs the action is: {y}',
            "{x} The person who acts: {y}",
            'Who acts in "{x}"? It is this: {y}',
        ),
    ),
    Kind(
        "find_object",
        _thing,
        (
            "Which thing is acted on in this sentence?",
            "Name the thing that something is done to.",
            "Find the object of the action in the sentence.",
        ),
        ("the thing acted on", "the thing that something is done to", "the object of the action"),
        (
            'In "{x}" the object of the action is: {y}',
            "{x} The thing acted on: {y}",
            'The thing that something is done to in "{x}" is this: {y}',
        ),
    ),
    Kind(
        "find_place",
        _place,
        (
            "Where does this happen?",
            "Name the place in the sentence.",
            "Find the place where this happened.",
        ),
        ("where it happened", "the place in a sentence", "the place where something happened"),
        (
            'In "{x}" the place is: {y}',
            "{x} The place where it happened: {y}",
            'Where "{x}" happened is this: {y}',
        ),
    ),
    Kind(
        "find_time",
        _time,
        (
            "When does this happen?",
            "Name the time in the sentence.",
            "Find the time at which this happened.",
        ),
        ("when it happened", "the time in a sentence", "the time at which something happened"),
        (
            'In "{x}" the time is: {y}',
            "{x} The time at which it happened: {y}",
            'When "{x}" happened is this: {y}',
        ),
    ),
    Kind(
        "find_home",
        _home,
        (
            "Where does {s} live?",
            "In which city does {s} live?",
            "Find the city where {s} lives.",
        ),
        ("where {s} lives", "the city where {s} lives", "in which city {s} lives"),
        (
            "{x} Where {s} lives: {y}",
            "Someone may look for {s}. {x} So {y}",
            "The city where {s} lives stands here. {x} {y}",
        ),
    ),
)
