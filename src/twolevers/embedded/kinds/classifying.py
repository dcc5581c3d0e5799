"""Kinds that put a text into a class: opinion, topic, form of sentence."""

from __future__ import annotations

from random import Random

from twolevers.embedded import vocabulary as words
from twolevers.embedded.grammar import action, capital, name
from twolevers.embedded.kinds.base import Example, Kind

# What is judged: (things, good words, bad words).
_JUDGED = (
    (
        ("film", "book", "story", "song", "game", "concert"),
        ("wonderful", "beautiful", "exciting", "great", "funny"),
        ("boring", "terrible", "awful", "dull", "stupid"),
    ),
    (
        ("soup", "cake", "dinner", "bread", "coffee", "fish"),
        ("delicious", "fresh", "excellent", "perfect", "great"),
        ("cold", "burnt", "awful", "terrible", "bitter"),
    ),
    (
        ("hotel", "room", "house", "train", "garden", "beach"),
        ("clean", "comfortable", "quiet", "lovely", "beautiful"),
        ("dirty", "noisy", "ugly", "crowded", "terrible"),
    ),
    (
        ("waiter", "guide", "driver", "doctor", "teacher", "nurse"),
        ("friendly", "kind", "polite", "helpful", "patient"),
        ("rude", "slow", "unfriendly", "lazy", "careless"),
    ),
)
_CLOSINGS = (
    ("We will come back soon.", "I loved it.", "Everyone was happy.", "It was worth the money."),
    ("We will never come back.", "I hated it.", "Everyone was angry.", "It was a waste of money."),
)


def _sentiment(rng: Random) -> Example:
    bad = rng.randrange(2)
    first, second = rng.sample(_JUDGED, 2)
    claims = [f"the {rng.choice(j[0])} was {rng.choice(j[1 + bad])}" for j in (first, second)]
    shape = rng.randrange(3)
    if shape == 0:
        text = f"{capital(claims[0])} and {claims[1]}."
    elif shape == 1:
        text = f"{capital(claims[0])}. {rng.choice(_CLOSINGS[bad])}"
    else:
        text = f"{capital(claims[0])} and {claims[1]}. {rng.choice(_CLOSINGS[bad])}"
    return Example(text, "Negative" if bad else "Positive")


_TOPICS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    "Sports": (
        ("The {0} won the {1} {2}.", "The {0} lost the {1} {2}.", "The {0} played in the {1} {2}."),
        (("team", "player", "champion", "captain"), ("match", "tournament", "final", "game")),
    ),
    "Food": (
        ("The {0} with {1} was served {2}.", "We ate {0} with {1} {2}.", "I had {0} and {1} {2}."),
        (("soup", "rice", "bread", "fish", "pie"), ("cheese", "butter", "onions", "eggs")),
    ),
    "Weather": (
        ("There was {0} and {1} {2}.", "We had {0} and {1} {2}.", "After the {0} came {1} {2}."),
        (("rain", "snow", "fog", "wind"), ("sunshine", "storms", "clouds", "thunder", "frost")),
    ),
    "Music": (
        ("The {0} played the {1} {2}.", "The {0} heard the {1} {2}.", "The {0} loved the {1} {2}."),
        (("band", "orchestra", "musician", "choir"), ("violin", "piano", "guitar", "drums")),
    ),
    "Travel": (
        ("The {0} to {1} left {2}.", "They took a {0} to {1} {2}.", "I missed the {0} to {1} {2}."),
        (("flight", "train", "bus", "plane"), ("Paris", "Rome", "London", "Cairo", "Madrid")),
    ),
    "School": (
        ("The {0} had {1} {2}.", "The {0} talked about {1} {2}.", "The {0} forgot {1} {2}."),
        (("pupils", "class", "teacher"), ("an exam", "a lesson", "a test", "a lecture")),
    ),
}  # fmt: skip


def _topic(rng: Random) -> Example:
    topic = rng.choice(tuple(_TOPICS))
    shapes, (first, second) = _TOPICS[topic]
    parts = rng.choice(first), rng.choice(second), rng.choice(words.TIMES)
    return Example(rng.choice(shapes).format(*parts), topic)


def _sentence_type(rng: Random) -> Example:
    act = action(rng, where=0.5, when=0)
    shape = rng.randrange(4)
    if shape == 0:
        return Example(act.past(), "Statement")
    if shape == 1:
        word = rng.choice(("", "why ", "when ", "how "))
        question = act.question()
        return Example(capital(word + question[0].lower() + question[1:]), "Question")
    if shape == 2:
        return Example(act.command(), "Command")
    things, good, bad = rng.choice((_JUDGED[0], *_JUDGED[2:]))  # nobody says "what a bread"
    kind_word = rng.choice(good + bad)
    article = "an" if kind_word[0] in "aeiou" else "a"
    ending = rng.choice(("", f" {rng.choice(words.PLACES)}", f", {name(rng).text}"))
    return Example(f"What {article} {kind_word} {rng.choice(things)}{ending}!", "Exclamation")


KINDS = (
    Kind(
        "sentiment",
        _sentiment,
        (
            "Classify the text as positive or negative.",
            "Is this opinion positive or negative?",
            "What is the sentiment of this review?",
        ),
        ("a positive or negative text", "the opinion of a review", "the sentiment of a review"),
        (
            'The sentiment of "{x}" is: {y}',
            "{x} The opinion, positive or negative: {y}",
            'A positive or negative text is "{x}" It is this: {y}',
        ),
    ),
    Kind(
        "topic",
        _topic,
        (
            "Classify the text by its topic.",
            "What is the topic of this text?",
            "Name the topic: Sports, Food, Weather, Music, Travel or School.",
        ),
        ("the topic of a text", "a text and its topic", "Sports, Food, Weather, Music and others"),
        ('The topic of "{x}" is: {y}', "{x} The topic of this text: {y}", "{x} The topic: {y}"),
    ),
    Kind(
        "sentence_type",
        _sentence_type,
        (
            "Is this a statement, a question, a command or an exclamation?",
            "Classify the type of the sentence.",
            "Which type of sentence is this?",
        ),
        ("the type of a sentence", "a statement, a question, a command or an exclamation"),
        (
            'The type of the sentence "{x}" is: {y}',
            "{x} The type of this sentence: {y}",
            "{x} The type: {y}",
        ),
    ),
)
