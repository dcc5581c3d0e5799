"""One sentence or list in many forms: what a grammar book shows on one page.

Most of a random sentence cannot be foreseen; what is made of it can. A page that makes five
things of one sentence teaches a small model more for each token that it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from twolevers.embedded import vocabulary as words
from twolevers.embedded.grammar import Action, action, capital
from twolevers.embedded.kinds import KINDS
from twolevers.embedded.kinds.lists import NUMBERS

_KINDS = {kind.name: kind for kind in KINDS}
_WORDS = tuple(sorted({word for family in words.FAMILIES.values() for word in family}))

_OF_PAST: dict[str, Callable[[Action], str]] = {
    "passive_voice": Action.passive,
    "question": Action.question,
    "negation": Action.negated,
    "pronouns": lambda act: act.with_pronouns() if act.person.pronoun else "",
}
_OF_PASSIVE: dict[str, Callable[[Action], str]] = {"active_voice": Action.past}
_OF_PRESENT: dict[str, Callable[[Action], str]] = {
    "past_tense": Action.past,
    "future_tense": Action.future,
}
_PARTS: dict[str, Callable[[Action], str]] = {
    "find_actor": lambda act: capital(act.person.text),
    "find_object": lambda act: capital(act.thing),
    "find_place": lambda act: capital(act.where),
    "find_time": lambda act: capital(act.when),
}


def all_forms(rng: Random) -> str:
    """A page about one sentence, or about one list."""
    source, results = _of_list(rng) if rng.random() < 0.3 else _of_sentence(rng)
    chosen = rng.sample(sorted(results.items()), min(len(results), rng.randint(3, 5)))
    if rng.random() < 0.4:
        return "\n".join(
            rng.choice(_KINDS[name].texts).format(x=source, y=result, s="")
            for name, result in chosen
        )
    gap, between = rng.choice((("\n", "\n\n"), (" ", "\n"), ("\n\n", "\n\n"), (" ", "\n\n")))
    after = rng.choice((":", ":", "."))
    lines = [
        f"{capital(rng.choice(_KINDS[name].topics))}{after}{gap}{result}" for name, result in chosen
    ]
    return between.join([source, *lines])


def _of_sentence(rng: Random) -> tuple[str, dict[str, str]]:
    act = action(rng, where=0.6, when=0.5)
    chance = rng.random()
    if chance < 0.5:
        source, forms = act.past(), {**_OF_PAST, **_PARTS}
    elif chance < 0.75:
        source, forms = act.passive(), {**_OF_PASSIVE, **_PARTS}
    else:
        act = replace(act, when="")
        source, forms = act.present(), {**_OF_PRESENT, **_PARTS}
    results = {name: form(act) for name, form in forms.items()}
    return source, {name: result for name, result in results.items() if result}


def _of_list(rng: Random) -> tuple[str, dict[str, str]]:
    items = rng.sample(_WORDS, rng.randint(3, 5))
    results = {
        "first_item": items[0],
        "last_item": items[-1],
        "count_items": f"The list has {NUMBERS[len(items)]} items.",
        "alphabetical": ", ".join(sorted(items)),
        "reverse_list": ", ".join(reversed(items)),
    }
    return ", ".join(items), results
