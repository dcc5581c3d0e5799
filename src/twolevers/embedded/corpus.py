"""The plain text that gpt2-nano is pretrained on.

Declarative prose about the same small world: grammar notes that show a sentence and what
becomes of it, texts and what they are about, facts told in full. It holds the patterns and the
facts of the data set but none of its instructions and nothing of its prompt: following an
instruction is what fine-tuning has to teach.

Held out honestly: where a kind combines words (rewriting, finding, classifying, lists), no
document holds the input, or a rewritten output, of a test or validation entry (nor of the few
entries of the last training round). Facts (capitals,
opposites, legs, units) are told in full; nobody can know a capital without having read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from twolevers.embedded import vocabulary as words
from twolevers.embedded.forms import all_forms
from twolevers.embedded.grammar import action, capital
from twolevers.embedded.kinds import KINDS, Kind, facts
from twolevers.embedded.write_data import TRAIN_ROUNDS, entries_of

# {t}: the topic; {T}: the same with a capital letter.
_LEADS = (
    "This is about {t}.",
    "The next lines show {t}.",
    "Here one sees {t}.",
    "{T}.",
    "{T}:",
    "A note on {t}.",
    "These lines are about {t}.",
    "{T} is what this page shows.",
    "Nothing is more useful than {t}.",
)
_LABELS = (
    ("Before", "After"),
    ("Given", "Result"),
    ("First", "Then"),
    ("Original", "Changed"),
    ("Sentence", "New sentence"),
    ("Text", "Answer"),
    ("On the left", "On the right"),
)
_QUIET = (
    "It was a quiet day.",
    "The days were long.",
    "Many people know this.",
    "Some of it is old and some of it is new.",
    "This is how people speak.",
    "There is not much to say about the rest.",
    "One line follows another.",
)

_GAPS = (" ", "\n", "\n\n")

_WORDS = tuple(
    sorted(
        {word for family in words.FAMILIES.values() for word in family}
        | {form for verb in words.VERBS for form in verb[:4]}
        | {word for verb in words.VERBS for thing in verb.objects for word in thing.split()}
        | {word for where in (*words.PLACES, *words.TIMES) for word in where.split()}
        | {*words.WOMEN, *words.MEN, *words.JOBS, *words.GROUPS, *words.TRAITS}
        | {*words.HER_NOUNS, *words.HIS_NOUNS, *facts.CAPITALS, *facts.CAPITALS.values()}
        | {word for pair in facts.OPPOSITES.split(",") for word in pair.split()}
        | {animal for animal, _ in facts.ANIMALS}
        | {str(number) for number in range(1, 100)}
    )
)


def held_out_texts() -> frozenset[str]:
    """What the pretraining text must not hold: of each combination in test and validation the
    input, and the output where it is a sentence of its own."""
    combined = [kind for kind in KINDS if not kind.facts]
    rows = [entry for kind in combined for entry in entries_of(kind)[TRAIN_ROUNDS:]]
    outputs = {row["output"] for row in rows if row["output"].endswith((".", "?"))}
    # "The list has four items." is one of five outputs, no combination.
    outputs = {output for output in outputs if not output.startswith("The list has")}
    homes = {row["output"] for row in rows if row["kind"] == "find_home"}
    return frozenset({row["input"] for row in rows} | (outputs - homes))


def documents(seed: int, held_out: frozenset[str] | None = None) -> Iterator[str]:
    """Documents without end, the same for the same seed."""
    banned = held_out_texts() if held_out is None else held_out
    rng = Random(seed)
    while True:
        text = _any(rng)
        if not any(held in text for held in banned):
            yield text


def _any(rng: Random) -> str:
    chance = rng.random()
    if chance < 0.04:
        return _echo(rng)
    if chance < 0.08:
        return _story(rng)
    if chance < 0.16:
        return _facts(rng)
    page = all_forms(rng) if chance < 0.56 else _document(rng.choice(KINDS), rng)
    # Text goes on after an answer. That an answer ends the matter is left for fine-tuning.
    return f"{page}{rng.choice(_GAPS)}{_filler(rng)}"


def _echo(rng: Random) -> str:
    """Words in no order, told again: nothing but copying helps to foresee them."""
    separator = rng.choice((" ", " ", ", "))
    told = separator.join(rng.choices(_WORDS, k=rng.randint(5, 25)))
    return rng.choice((".\n", "\n", "\n\n", ". ")).join([told] * rng.randint(2, 4))


def _filler(rng: Random) -> str:
    return rng.choice(_QUIET) if rng.random() < 0.5 else action(rng).past()


def _story(rng: Random) -> str:
    """A few sentences in a row."""
    return " ".join(_filler(rng) for _ in range(rng.randint(2, 6)))


def _facts(rng: Random) -> str:
    """A few facts in a row."""
    kinds = [kind for kind in KINDS if kind.facts]
    told = [rng.choice(kinds).example(rng).result for _ in range(rng.randint(3, 6))]
    return rng.choice((" ", "\n")).join(told)


def _document(kind: Kind, rng: Random) -> str:
    """One document on one kind: a sentence that tells the pattern, or a note that shows it."""
    chance = rng.random()
    if chance < 0.25:
        return _told(kind, rng)
    if chance < 0.35:
        return "\n".join(_told(kind, rng) for _ in range(2))
    return _shown(kind, rng)


def _told(kind: Kind, rng: Random) -> str:
    example = kind.example(rng)
    told = rng.choice(kind.texts)
    text = told.format(x=example.source, y=example.result, s=example.subject)
    return f"{_filler(rng)} {text}" if rng.random() < 0.3 else text


def _shown(kind: Kind, rng: Random) -> str:
    """A lead that names the topic, then source and result, apart by lines, labels or prose."""
    example = kind.example(rng)
    topic = rng.choice(kind.topics).format(s=example.subject)
    lead = rng.choice(_LEADS).format(t=topic, T=capital(topic))
    if rng.random() < 0.25:
        lead = f"{_filler(rng)} {lead}"
    if rng.random() < 0.2:
        lead = f"{lead} {rng.choice(_QUIET)}"
    before, after = rng.choice(_LABELS)
    gap = rng.choice(("\n\n", "\n\n", "\n"))
    label_gap = rng.choice(("\n", "\n", " "))
    chance = rng.random()
    parts = [lead]
    if chance < 0.3:  # bare lines
        parts += [example.source, example.result]
    elif chance < 0.75:  # labels on both
        parts += [
            f"{before}:{label_gap}{example.source}" if example.source else "",
            f"{after}:{label_gap}{example.result}",
        ]
    elif chance < 0.9:  # a label on the result alone
        parts += [example.source, f"{after}:{label_gap}{example.result}"]
    else:  # a line between
        parts += [example.source, rng.choice(_QUIET), example.result]
    return gap.join(part for part in parts if part)
