"""Writes the embedded messages, spam or not: `python -m twolevers.embedded.messages`.

Deterministic: the same code writes the same bytes. Both classes speak of prizes, money, accounts
and free things, ask for calls and hold numbers, so that no single word gives a class away; what a
message wants does.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from random import Random

from twolevers.embedded import MESSAGES_PATH

NUM_HAM, NUM_SPAM = 600, 400
SEED = 6
HAM, SPAM = "ham", "spam"

WORDS: dict[str, tuple[str, ...]] = {
    "name": ("Anna", "Ben", "Carla", "David", "Emma", "Frank", "Grace", "Henry", "Iris", "Jack",
             "Laura", "Mark", "Nina", "Oscar", "Paula", "Robert", "Sara", "Tom"),
    "kin": ("mum", "dad", "grandma", "my sister", "my brother", "your aunt", "uncle Joe"),
    "day": ("on Monday", "on Tuesday", "on Friday", "on Sunday", "tomorrow", "tonight", "next week",
            "this evening", "after lunch"),
    "hour": ("at 5", "at 7", "at half past 8", "around 6", "before 9", "by 10", "at quarter to 4"),
    "place": ("the station", "the library", "the cinema", "school", "the bakery", "the gym",
              "the office", "the park", "the bank", "the airport", "the new cafe", "home"),
    "food": ("pizza", "soup", "pasta", "salad", "curry", "pancakes", "fish", "rice"),
    "item": ("bread", "milk", "stamps", "batteries", "eggs", "the tickets", "a cake", "flowers",
             "the keys", "your charger", "my blue jacket"),
    "event": ("the meeting", "the concert", "the match", "dinner", "the exam", "the party",
              "the appointment", "the rehearsal", "the trip"),
    "prize": ("a holiday for two", "a new phone", "a cash prize of {sum}",
              "a gift card worth {sum}", "a luxury watch", "a {sum} shopping voucher",
              "two concert tickets", "a games console"),
    "sum": ("$100", "$250", "$500", "$1000", "$2000", "$5000", "900 pounds", "5000 pounds"),
    "small": ("$5", "$12", "20 pounds", "$30", "8 pounds", "$45"),
    "firm": ("Maxi Bank", "CityPay", "QuickLoan", "StarMobile", "TopCasino", "ParcelNow",
             "GoldClub", "MegaShop", "FunTones", "SecureMail"),
    "code": ("WIN", "GOLD", "STAR", "YES", "CLAIM", "LUCKY", "VIP", "BONUS"),
    "digits": ("80082", "87121", "62468", "85023", "61200", "83355", "89545", "84025"),
    "phone": ("0800 555 0142", "0906 555 0118", "0870 555 0173", "0844 555 0106", "0900 555 0187"),
    "site": ("www.maxi-prize.example", "claim-now.example", "http://star-offer.example",
             "www.fast-cash.example", "secure-login.example", "www.free-tones.example"),
    "hurry": ("Today only", "Last chance", "Offer ends tonight", "Only 24 hours left",
              "Reply within 12 hours", "Do not miss out", "Limited offer", "Act now"),
    "hello": ("Hi", "Hey", "Hello", "Morning", "Hi there", ""),
    "end": ("x", "Thanks", "See you", "Love you", "Bye", "Talk later", "", "", ""),
}  # fmt: skip

TEMPLATES: dict[str, tuple[str, ...]] = {
    HAM: (
        "{hello} {name}, are you free {day}? We could meet at {place}. {end}",
        "Can you pick up {item} on the way to {place}? {end}",
        "I am running late, start {event} without me. Should be at {place} {hour}. {end}",
        "{name} won a prize at school, call {kin} {day} and ask about it!",
        "Did you claim the {small} for {event}? The office needs the form {day}.",
        "I still owe you {small} for {item}. I will bring it {day}. {end}",
        "The bank called about our account, nothing urgent. I go there {day} {hour}.",
        "Free tickets for {event}! {name} has two left, do you want one? Call me {hour}.",
        "{kin} says {event} is {day} {hour}. Text back if you can come.",
        "Dinner is {food}, there is plenty left for you in the fridge. {end}",
        "My phone was off, sorry. What did {name} say about {event}?",
        "Please reply to {name}, we have to tell them {day} who brings {item}.",
        "No offer on the house yet, we will know more {day}. {end}",
        "Your code for the door is {number}. {name} has the spare key. {end}",
        "{hello}, it is {name}. New number, the old one stopped working {day}. {end}",
        "Just won the match with {name}, 3 to 1! So happy. {end}",
        "Urgent: did you leave {item} at {place}? {name} is looking for it.",
        "The parcel came, {kin} signed for it. It is only {item}. {end}",
        "Thanks for {food} last night, {kin} loved it. Next time at {place}?",
        "Could you call {kin} {hour}? It is about {event}, not bad news. {end}",
        "I paid {small} for {item}, cheap, no? They had an offer {day}.",
        "{name} asks for your account number to send the {small} back. I told them to ask you.",
    ),
    SPAM: (
        "{hurry}! You have won {prize}. Call {phone} to claim.",
        "You have won {prize}. Call {phone} now.",
        "You won! Text {code} to {digits} for {prize}.",
        "Free {firm} ringtone, just call {phone}.",
        "Congratulations! Your number {number} was drawn for {prize}. Text {code} to {digits}.",
        "{firm}: your account is locked. Confirm your password at {site} to open it again.",
        "{hello}, you are owed {sum}. Reply {code} and we send it to your account. {hurry}.",
        "FREE ringtone of the week! Text {code} to {digits}. {small} a week, stop any time.",
        "{firm} has a parcel for you. Pay the fee of {small} at {site} or it goes back.",
        "Need money? {firm} lends you {sum} in minutes, no questions. Visit {site}.",
        "Final notice {name}: claim {prize} on {phone}. Calls cost {small} a minute.",
        "Meet singles near {place} {day}! Text {code} to {digits}, first message free.",
        "You were chosen for {prize}, {name}. {hurry}: {site}",
        "{firm} bonus: pay in {small}, play with {sum}. Ends {day}. {site}",
        "Urgent! We tried to call you {day} about {prize}. Ring {phone} and quote {number}.",
        "Your {firm} contract ends {day}. Get a new phone free, reply {code} to {digits}.",
        "Hi {name}, my phone is lost, this is my new number. Can you send {sum}? Pay at {site}",
        "Work from home and earn {sum} a week! Ask us how: {phone}.",
        "{firm} refund of {sum} is ready. Enter your card number at {site}. {hurry}.",
        "Double your {sum} in a week, no risk. {name} did it! Join at {site}",
        "Dear customer, {prize} waits for you. Send {code} and your address to {digits}.",
    ),
}


def make_messages() -> list[tuple[str, str]]:
    """Label and text of every message, no text twice, in an order of no meaning."""
    rng = Random(SEED)
    messages = []
    for label, count in ((HAM, NUM_HAM), (SPAM, NUM_SPAM)):
        texts: dict[str, None] = {}
        while len(texts) < count:
            texts[_fill(rng.choice(TEMPLATES[label]), rng)] = None
        messages += [(label, text) for text in texts]
    rng.shuffle(messages)
    return messages


def _fill(template: str, rng: Random) -> str:
    """A template with its words drawn; here and there written as people type."""
    text = template
    while "{" in text:
        drawn = {name: rng.choice(words) for name, words in WORDS.items()}
        text = text.format(**drawn, number=rng.randint(10_000, 99_999))
    text = " ".join(text.split()).lstrip(", ")
    if rng.random() < 0.15:
        text = text.lower()
    elif text[0].islower():
        text = text[0].upper() + text[1:]
    if rng.random() < 0.1:
        text = text.rstrip(".!?")
    return text


def render(messages: list[tuple[str, str]]) -> str:
    """The file's text: CSV with a header."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("label", "text"))
    writer.writerows(messages)
    return out.getvalue()


def main(path: Path = MESSAGES_PATH) -> None:
    path.write_text(render(make_messages()), encoding="utf-8")


if __name__ == "__main__":
    main()
