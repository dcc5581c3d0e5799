"""Sentences from the vocabulary: one action, written in every form that a kind of task needs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from twolevers.embedded import vocabulary as words
from twolevers.embedded.vocabulary import Verb


@dataclass(frozen=True)
class Person:
    """Who acts. `pronoun` is empty where the word does not say he or she."""

    text: str
    pronoun: str = ""

    @property
    def plural(self) -> bool:
        return self.pronoun == "they"


@dataclass(frozen=True)
class Action:
    """Someone does something to something; `where` and `when` may be empty."""

    person: Person
    verb: Verb
    thing: str
    where: str = ""
    when: str = ""

    @property
    def thing_is_plural(self) -> bool:
        return self.thing.removeprefix("the ") in words.PLURAL_THINGS

    def _sentence(self, *parts: str, end: str = ".") -> str:
        return capital(" ".join(part for part in (*parts, self.where, self.when) if part)) + end

    def past(self) -> str:
        return self._sentence(self.person.text, self.verb.past, self.thing)

    def present(self) -> str:
        verb = self.verb.base if self.person.plural else self.verb.third
        return self._sentence(self.person.text, verb, self.thing)

    def future(self) -> str:
        return self._sentence(self.person.text, "will", self.verb.base, self.thing)

    def negated(self) -> str:
        return self._sentence(self.person.text, "did not", self.verb.base, self.thing)

    def question(self) -> str:
        return self._sentence("did", self.person.text, self.verb.base, self.thing, end="?")

    def passive(self) -> str:
        was = "were" if self.thing_is_plural else "was"
        return self._sentence(self.thing, was, self.verb.participle, "by", self.person.text)

    def with_pronouns(self) -> str:
        it = "them" if self.thing_is_plural else "it"
        return self._sentence(self.person.pronoun, self.verb.past, it)

    def command(self) -> str:
        return self._sentence(self.verb.base, self.thing)

    def polite(self) -> str:
        return self._sentence("could you please", self.verb.base, self.thing, end="?")


def capital(text: str) -> str:
    """The text with its first letter large."""
    return text[:1].upper() + text[1:]


def with_article(noun: str) -> str:
    """`an apple`, `a pear`."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def name(rng: Random) -> Person:
    """A woman or a man by name."""
    if rng.random() < 0.5:
        return Person(rng.choice(words.WOMEN), "she")
    return Person(rng.choice(words.MEN), "he")


def person(rng: Random) -> Person:
    """Anyone: by name, by job, as part of a family, or several at once."""
    chance = rng.random()
    if chance < 0.35:
        return name(rng)
    if chance < 0.5:
        return Person(f"the {rng.choice(words.GROUPS)}", "they")
    trait = f"{rng.choice(words.TRAITS)} " if rng.random() < 0.3 else ""
    if chance < 0.8:
        return Person(f"the {trait}{rng.choice(words.JOBS)}")
    return gendered(rng, trait)


def gendered(rng: Random, trait: str = "") -> Person:
    """Someone of whom the word says she or he: `the queen`, `the old king`."""
    nouns, pronoun = (words.HER_NOUNS, "she") if rng.random() < 0.5 else (words.HIS_NOUNS, "he")
    noun = rng.choice(nouns)
    if noun in ("girl", "boy"):
        trait = trait.replace("old ", "young ")
    return Person(f"the {trait}{noun}", pronoun)


def action(
    rng: Random, who: Person | None = None, where: float = 0.35, when: float = 0.15
) -> Action:
    """A random action; `where` and `when` are the chances that place and time are told."""
    verb = rng.choice(words.VERBS)
    return Action(
        who or person(rng),
        verb,
        rng.choice(verb.objects),
        rng.choice(words.PLACES) if rng.random() < where else "",
        rng.choice(words.TIMES) if rng.random() < when else "",
    )
