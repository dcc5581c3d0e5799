"""Kinds that rewrite a sentence: voice, tense, question, negation, manners."""

from __future__ import annotations

from random import Random

from twolevers.embedded.grammar import action, capital, gendered, name, person
from twolevers.embedded.kinds.base import Example, Kind


def _passive(rng: Random) -> Example:
    act = action(rng)
    return Example(act.past(), act.passive())


def _active(rng: Random) -> Example:
    act = action(rng)
    return Example(act.passive(), act.past())


def _past(rng: Random) -> Example:
    act = action(rng, when=0)
    return Example(act.present(), act.past())


def _future(rng: Random) -> Example:
    act = action(rng, when=0)
    return Example(act.present(), act.future())


def _question(rng: Random) -> Example:
    act = action(rng)
    return Example(act.past(), act.question())


def _negation(rng: Random) -> Example:
    act = action(rng)
    return Example(act.past(), act.negated())


def _pronouns(rng: Random) -> Example:
    act = action(rng, who=name(rng) if rng.random() < 0.6 else gendered(rng), where=0.5)
    return Example(act.past(), act.with_pronouns())


def _polite(rng: Random) -> Example:
    act = action(rng, where=0.5, when=0)
    return Example(act.command(), act.polite())


CAUSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("it was raining", ("stayed at home", "took a taxi", "closed the window")),
    ("it was cold", ("put on a coat", "made hot tea", "stayed at home")),
    ("it was hot", ("drank cold water", "sat in the shade", "went for a swim")),
    ("it was late", ("went to bed", "took a taxi", "left the party")),
    ("the shop was closed", ("went home", "came back later", "had no bread")),
    ("the bus was late", ("walked to school", "took a taxi", "missed the meeting")),
    ("the soup was cold", ("ordered a new meal", "left the table", "asked for bread")),
    ("the baby was asleep", ("spoke softly", "closed the door", "turned off the radio")),
    ("the road was closed", ("took the train", "walked home", "came back later")),
    ("the room was dark", ("turned on the lamp", "opened the window", "left the house")),
    ("the train was full", ("waited for the next one", "took a taxi", "walked home")),
    ("the sun was shining", ("sat in the garden", "went for a walk", "put on a hat")),
    ("the music was loud", ("closed the door", "left the party", "called the guard")),
    ("dinner was ready", ("sat down at the table", "called the children", "washed the plates")),
)


def _because(rng: Random) -> Example:
    cause, effects = rng.choice(CAUSES)
    effect = f"{person(rng).text} {rng.choice(effects)}"
    return Example(f"{capital(cause)}. {capital(effect)}.", f"{capital(effect)} because {cause}.")


KINDS = (
    Kind(
        "passive_voice",
        _passive,
        (
            "Rewrite the sentence in the passive voice.",
            "Change this sentence to the passive voice.",
            "Convert the active sentence into a passive one.",
        ),
        ("the passive voice", "an active sentence and the passive one", "a passive sentence"),
        (
            'In the passive voice "{x}" reads: {y}',
            "{x} In the passive voice: {y}",
            'The passive voice of "{x}" is "{y}"',
        ),
    ),
    Kind(
        "active_voice",
        _active,
        (
            "Rewrite the sentence in the active voice.",
            "Change this sentence to the active voice.",
            "Convert the passive sentence into an active one.",
        ),
        ("the active voice", "a passive sentence and the active one", "an active sentence"),
        (
            'In the active voice "{x}" reads: {y}',
            "{x} In the active voice: {y}",
            'The active voice of "{x}" is "{y}"',
        ),
    ),
    Kind(
        "past_tense",
        _past,
        (
            "Rewrite the sentence in the past tense.",
            "Put this sentence into the past tense.",
            "Tell the same thing in the past.",
        ),
        ("the past tense", "the same thing in the past", "a sentence in the past"),
        (
            'In the past tense "{x}" reads: {y}',
            "{x} In the past tense: {y}",
            'The past tense of "{x}" is "{y}"',
        ),
    ),
    Kind(
        "future_tense",
        _future,
        (
            "Rewrite the sentence in the future tense.",
            "Put this sentence into the future tense.",
            "Tell the same thing in the future.",
        ),
        ("the future tense", "the same thing in the future", "a sentence in the future"),
        (
            'In the future tense "{x}" reads: {y}',
            "{x} In the future tense: {y}",
            'The future tense of "{x}" is "{y}"',
        ),
    ),
    Kind(
        "question",
        _question,
        (
            "Turn the statement into a question.",
            "Rewrite this sentence as a question.",
            "Make a yes or no question from the sentence.",
        ),
        ("a statement and its question", "a sentence as a question", "a yes or no question"),
        (
            'As a question "{x}" reads: {y}',
            "{x} As a question: {y}",
            'The question to the statement "{x}" is "{y}"',
        ),
    ),
    Kind(
        "negation",
        _negation,
        (
            "Rewrite the sentence in the negative.",
            "Negate the sentence.",
            "Say that this did not happen.",
        ),
        ("the negative", "a sentence in the negative", "what did not happen"),
        (
            'In the negative "{x}" reads: {y}',
            "{x} In the negative: {y}",
            'The negative of "{x}" is "{y}"',
        ),
    ),
    Kind(
        "pronouns",
        _pronouns,
        (
            "Replace the person and the thing with pronouns.",
            "Rewrite the sentence with pronouns.",
            "Use pronouns for the nouns in this sentence.",
        ),
        ("pronouns", "a sentence with pronouns", "pronouns for the person and the thing"),
        (
            'With pronouns "{x}" reads: {y}',
            "{x} With pronouns: {y}",
            'With pronouns for the nouns "{x}" is "{y}"',
        ),
    ),
    Kind(
        "polite_request",
        _polite,
        (
            "Rewrite the command as a polite request.",
            "Make this command polite.",
            "Say the same in a polite way.",
        ),
        ("a polite request", "a command made polite", "the same in a polite way"),
        (
            'As a polite request "{x}" reads: {y}',
            "{x} As a polite request: {y}",
            'The polite way of the command "{x}" is "{y}"',
        ),
    ),
    Kind(
        "join_because",
        _because,
        (
            'Join the two sentences with "because".',
            'Use "because" to make one sentence of the two.',
            'Connect the sentences with the word "because".',
        ),
        ('two sentences with "because"', 'one sentence with "because"', 'the word "because"'),
        (
            'With "because" the sentences "{x}" read: {y}',
            '{x} With "because": {y}',
            'One sentence with "because" of the two "{x}" is "{y}"',
        ),
    ),
)
