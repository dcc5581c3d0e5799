"""The closed vocabulary of the small world that gpt2-nano knows.

A model of a few million parameters learns rules over words that it has met many times. All
sentences of the data set and of the pretraining text are made of these words: persons who act,
things they act on, places and times. What fits together stands together (each verb names its
own objects), so that a sentence made by chance still makes sense.
"""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """One transitive verb: its forms, and the things it is done to, each with its article."""

    base: str
    third: str
    past: str
    participle: str
    objects: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _verb(forms: str, objects: str) -> Verb:
    base, third, past, participle = forms.split()
    return Verb(base, third, past, participle, tuple(f"the {noun}" for noun in objects.split()))


VERBS = (
    _verb("wash washes washed washed", "plates car windows shirt cups floor apples"),
    _verb("clean cleans cleaned cleaned", "kitchen windows table floor room house shoes"),
    _verb("paint paints painted painted", "wall house door boat fence picture gate"),
    _verb("open opens opened opened", "door window box letter gate bottle shop"),
    _verb("close closes closed closed", "door window gate shop box book windows"),
    _verb("write writes wrote written", "letter book story song report poem list"),
    _verb("read reads read read", "letter book story report poem map list"),
    _verb("build builds built built", "house bridge wall boat tower fence table"),
    _verb("break breaks broke broken", "window cup plates chair glass box clock"),
    _verb("buy buys bought bought", "apples bread car house flowers tickets shoes"),
    _verb("sell sells sold sold", "apples bread car house flowers tickets horse"),
    _verb("find finds found found", "keys ring coin letter map dog coins"),
    _verb("carry carries carried carried", "box bag books chair basket water boxes"),
    _verb("bring brings brought brought", "flowers bread letter water chairs tea books"),
    _verb("eat eats ate eaten", "apple cake soup bread cheese eggs cookies"),
    _verb("cook cooks cooked cooked", "soup dinner eggs rice fish potatoes"),
    _verb("bake bakes baked baked", "cake bread pie cookies potatoes"),
    _verb("drink drinks drank drunk", "tea milk water juice coffee"),
    _verb("draw draws drew drawn", "map picture horse tree circle house"),
    _verb("cut cuts cut cut", "bread cake rope paper grass cheese"),
    _verb("fix fixes fixed fixed", "car roof clock radio chair bike windows"),
    _verb("feed feeds fed fed", "dog cat horses birds chickens horse"),
    _verb("watch watches watched watched", "film game birds children horses race"),
    _verb("plant plants planted planted", "tree flowers seeds potatoes trees"),
    _verb("move moves moved moved", "table chair boxes piano chairs bed"),
    _verb("throw throws threw thrown", "ball stone rope stones"),
    _verb("catch catches caught caught", "ball fish mouse horse"),
    _verb("lose loses lost lost", "keys ring ticket bag game coins"),
    _verb("win wins won won", "game prize race"),
    _verb("choose chooses chose chosen", "ring book color picture flowers shoes"),
    _verb("send sends sent sent", "letter report flowers ticket books"),
    _verb("hide hides hid hidden", "key ring coins gift letter"),
    _verb("lift lifts lifted lifted", "box stone bag basket boxes"),
    _verb("check checks checked checked", "report list tickets map clock car"),
    _verb("pack packs packed packed", "bag boxes books shoes gift"),
    _verb("push pushes pushed pushed", "cart car door table boxes"),
    _verb("pull pulls pulled pulled", "rope cart door boat"),
)

PLURAL_THINGS = frozenset(
    _words(
        "plates windows cups apples flowers tickets shoes keys coins books boxes chairs eggs "
        "cookies potatoes horses birds chickens children seeds trees stones"
    )
)

WOMEN = _words("Anna Maria Sarah Emma Lucy Julia Laura Alice Jane Kate Nina Rosa")
MEN = _words("Peter Tom Paul David Jack Mark Daniel Henry Robert George Simon Oscar")
HER_NOUNS = ("girl", "woman", "queen", "mother", "aunt", "sister")
HIS_NOUNS = ("boy", "man", "king", "father", "uncle", "brother")
JOBS = _words(
    "cook farmer teacher doctor nurse baker painter sailor driver student artist singer writer "
    "soldier lawyer guard judge neighbor gardener waiter captain worker engineer hunter manager "
    "visitor guest pilot"
)
GROUPS = ("children", "students", "girls", "boys", "workers", "sailors", "farmers", "guests")
TRAITS = ("young", "old", "tall", "kind", "happy", "tired", "busy", "quiet", "clever", "friendly")

PLACES = (
    "in the garden", "in the kitchen", "at the market", "at school", "in the park", "at home",
    "in the village", "near the river", "at the station", "behind the house", "in the city",
    "on the farm", "at the hotel", "near the bridge", "in the yard", "at the harbor",
)  # fmt: skip
TIMES = (
    "on Monday", "on Tuesday", "on Wednesday", "on Thursday", "on Friday", "on Saturday",
    "on Sunday", "in the morning", "in the evening", "in the afternoon", "at noon",
    "after lunch", "before dinner", "last week", "yesterday", "in March", "in May", "in July",
)  # fmt: skip

FAMILIES: dict[str, tuple[str, ...]] = {
    "a fruit": _words("apple pear plum cherry banana orange lemon peach grape melon"),
    "an animal": _words("dog cat horse cow lion tiger bear wolf fox rabbit sheep goat"),
    "a tool": _words("hammer saw drill shovel rake axe wrench knife"),
    "a color": _words("red blue green yellow black white brown purple"),
    "a vegetable": _words("carrot onion potato cabbage pepper bean pea corn"),
    "an instrument": _words("piano guitar violin drum flute trumpet harp cello"),
    "a vehicle": _words("car bus train bike truck boat plane ship"),
    "a piece of furniture": _words("chair table bed desk sofa shelf lamp bench"),
    "a piece of clothing": _words("shirt coat hat shoe sock scarf jacket skirt"),
    "a drink": _words("water milk tea coffee juice wine"),
}
"""Words of one family: the families of lists and of the odd one out."""
