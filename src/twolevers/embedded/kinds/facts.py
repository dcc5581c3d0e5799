"""Kinds that answer from knowledge. The facts are true, and pretraining tells each of them."""

from __future__ import annotations

from random import Random

from twolevers.embedded.grammar import capital, with_article
from twolevers.embedded.kinds.base import Example, Kind

_CAPITALS = (
    "France=Paris,Italy=Rome,Germany=Berlin,Spain=Madrid,Austria=Vienna,Norway=Oslo,"
    "Ireland=Dublin,Greece=Athens,Egypt=Cairo,Japan=Tokyo,China=Beijing,Russia=Moscow,"
    "Poland=Warsaw,Portugal=Lisbon,Sweden=Stockholm,Finland=Helsinki,Denmark=Copenhagen,"
    "Belgium=Brussels,Hungary=Budapest,Turkey=Ankara,Canada=Ottawa,Cuba=Havana,Peru=Lima,"
    "Iran=Tehran,Iraq=Baghdad,Kenya=Nairobi,Syria=Damascus,Thailand=Bangkok,Vietnam=Hanoi,"
    "Lebanon=Beirut,Afghanistan=Kabul,Australia=Canberra,Ukraine=Kyiv,Romania=Bucharest,"
    "Bulgaria=Sofia,Serbia=Belgrade,Libya=Tripoli,Jordan=Amman,Qatar=Doha,Chile=Santiago,"
    "Colombia=Bogota,Venezuela=Caracas,Argentina=Buenos Aires,India=New Delhi,"
    "Pakistan=Islamabad,Nepal=Kathmandu,Morocco=Rabat,Tunisia=Tunis,Ethiopia=Addis Ababa,"
    "Ghana=Accra,Iceland=Reykjavik,England=London,Scotland=Edinburgh,Croatia=Zagreb"
)
CAPITALS = dict(pair.split("=") for pair in _CAPITALS.split(","))

OPPOSITES = (
    "hot cold,big small,long short,old new,good bad,happy sad,fast slow,light dark,high low,"
    "rich poor,strong weak,clean dirty,full empty,hard soft,wet dry,early late,near far,"
    "wide narrow,thick thin,loud quiet,open closed,true false,right wrong,first last,up down,"
    "day night,love hate,war peace,begin end,buy sell,win lose,push pull,laugh cry,friend enemy,"
    "cheap expensive,brave afraid,deep shallow,sweet sour,black white,inside outside,above below,"
    "before after,life death,easy difficult,safe dangerous,always never,more less,north south"
)
"""Pairs; each word stands in one pair only."""

_LEGS = {
    "no": "snake worm shark whale dolphin eel",
    "two": "hen duck goose eagle owl parrot swan penguin turkey crow robin",
    "four": (
        "dog cat horse cow lion tiger bear wolf fox mouse rabbit sheep goat pig camel deer "
        "elephant giraffe zebra squirrel lizard frog turtle crocodile donkey leopard"
    ),
    "six": "ant bee butterfly beetle fly wasp mosquito moth",
    "eight": "spider scorpion",
}
ANIMALS = tuple((animal, count) for count, names in _LEGS.items() for animal in names.split())

# (larger unit, smaller unit, how many of the smaller make one of the larger)
UNITS = (
    ("meters", "centimeters", 100),
    ("kilometers", "meters", 1000),
    ("hours", "minutes", 60),
    ("weeks", "days", 7),
    ("years", "months", 12),
    ("days", "hours", 24),
    ("feet", "inches", 12),
    ("kilograms", "grams", 1000),
)


def _capital(rng: Random) -> Example:
    country = rng.choice(tuple(CAPITALS))
    return Example("", f"The capital of {country} is {CAPITALS[country]}.", country)


_PAIRS = tuple(
    (one, other)
    for pair in OPPOSITES.split(",")
    for one, other in (pair.split(), pair.split()[::-1])
)


def _opposite(rng: Random) -> Example:
    one, other = rng.choice(_PAIRS)
    return Example("", f"The opposite of {one} is {other}.", one)


def _legs(rng: Random) -> Example:
    animal, count = rng.choice(ANIMALS)
    return Example("", f"{capital(with_article(animal))} has {count} legs.", with_article(animal))


def _units(rng: Random) -> Example:
    large, small, factor = rng.choice(UNITS)
    count = rng.randint(2, 12)
    return Example("", f"{count} {large} are {count * factor} {small}.", f"{count} {large}")


KINDS = (
    Kind(
        "capital",
        _capital,
        (
            "What is the capital of {s}?",
            "Name the capital of {s}.",
            "Which city is the capital of {s}?",
        ),
        ("the capital of {s}", "which city is the capital of {s}"),
        ("{y}", "{s} is a country. {y}", "In {s} there are many cities. {y}"),
        facts=True,
    ),
    Kind(
        "opposite",
        _opposite,
        (
            'What is the opposite of "{s}"?',
            'Name the opposite of the word "{s}".',
            'Give the opposite of "{s}".',
        ),
        ('the opposite of "{s}"', 'the opposite of the word "{s}"'),
        ("{y}", '"{s}" is a word. {y}', 'Some words are like "{s}". {y}'),
        facts=True,
    ),
    Kind(
        "legs",
        _legs,
        (
            "How many legs does {s} have?",
            "Say how many legs {s} has.",
            "What is the number of legs of {s}?",
        ),
        ("how many legs {s} has", "the number of legs of {s}"),
        ("{y}", "One looks at {s}. {y}", "Here comes {s}. {y}"),
        facts=True,
    ),
    Kind(
        "units",
        _units,
        (
            "Convert {s} to a smaller unit.",
            "Express {s} in the smaller unit.",
            "How much are {s} in a smaller unit?",
        ),
        ("{s} in a smaller unit", "the smaller unit for {s}"),
        ("{y}", "It took {s}. {y}", "Someone counted {s}. {y}"),
        facts=True,
    ),
)
