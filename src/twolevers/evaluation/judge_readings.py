"""How a judge's reply is read: as a score from 0 to 100, or as a preference.

A score is read in two steps. First every number becomes a mark: ⟦85⟧ where it may be a score from
0 to 100, ⟦⟧ where it is none (out of 10, below 0, one of a range or list, a count of something).
Then the forms in which judges give a score are looked for, the plainest first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_REPLY = 20_000
"""Characters that are read: a model that repeats itself may be held by nothing else."""

_DIGITS = r"\d+(?:[.,٫٬]\d+)*"
_COUNTED = (
    r"[ \t]+(?!(?:points?|out|on|for|to|or|because|since|as|and|but|with|due|although|though"
    r"|while|the|this|it|reason|given|percent)\b)[a-z]"
)
_NUMBER = re.compile(
    rf"""
    (?P<compared>(?:(?<![\w"'/])>|[<≤≥])=?[ \t]*)?
    (?P<sign>[-−–][ \t]?)?
    (?P<number>{_DIGITS})
    (?P<unit>\w*)
    (?:
      [%*_`"'\])(]*[ \t]*(?i:points?[ \t]+)?
      (?:/|(?i:out[ ]of|of)\b)[ \t]*\W{{0,3}}(?P<scale>\d+)
    )?
    (?P<range>
      (?:\s*(?:[-–—~]|(?i:to|or)\b)\s*{_DIGITS})+
      | (?:,?[ \t]+(?:and[ \t]+)?{_DIGITS}(?!\w|{_COUNTED}|[ \t]*(?:/|of\b|out\b)))+
    )?
    (?P<counted>(?={_COUNTED}))?
    """,
    re.X,
)
_UNITS = ("", "点", "分", "점")
_LIST = re.compile(r"^[ \t]*1[.)][ \t]", re.M)

_GAP = r"[^\w⟦]"
_MARK = r"⟦(?P<score>[\d.]*)⟧"
_LABEL = r"(?:\b(?:score|rating|grade)\b|分数|评分|得分|点数|スコア|점수)"
_LABELLED = re.compile(
    rf"""(?P<final>\b(?:final|overall|total)\W{{1,4}})?{_LABEL}["'*_`)\]]*\s*[:：=]{_GAP}{{0,9}}"""
    + _MARK,
    re.I,
)
_FIRST = re.compile(
    rf"{_GAP}{{0,4}}{_MARK}"
    r"""[%*_\])`"']*[ \t]*+(?=[.!]?\s*\Z|[.!]?[ \t]*\n|[:;,–—-]|(?:because|since)\b)"""
)
_NAMED = re.compile(rf"{_LABEL}{_GAP}{{0,9}}(?:(?:is|of|as|at)\b{_GAP}{{0,4}})?{_MARK}", re.I)
_GIVEN = re.compile(
    r"(?:\b(?:scor|rat(?:e|ing)|grad(?:e|ing)|giv|mark|award|assign|evaluat|deserv|worth|boxed)\w*"
    rf"[^.⟦\n]{{0,40}}|\A{_GAP}*){_MARK}",
    re.I,
)
_SCALE = re.compile(
    r"\b[01]\s*(?:to|-|–|—|and)\s*100\b|[(\[]\s*(?:out of|of|max\.?|/)\s*100\s*[)\]]", re.I
)
_THOUGHT = r"(?:\w+:)?(?:think(?:ing)?|reasoning|thoughts?)"
_THOUGHTS = [  # whole ones; one that began in the prompt; one that was cut off; GPT-OSS's channels
    re.compile(pattern, re.I | re.S)
    for pattern in (
        rf"[<\[◁]({_THOUGHT}|reflection|analysis|scratchpad)\b[^>\]▷\n]*[>\]▷].*?[<\[◁]/\1[>\]▷]",
        rf"\A.*[<\[◁]/{_THOUGHT}[>\]▷]",
        rf"[<\[◁]{_THOUGHT}[>\]▷].*\Z",
        r"\A.*<\|channel\|>\s*final\b.*?<\|message\|>",
        r"<\|channel\|>\s*analysis\b.*\Z",
    )
]
_THOUGHT_ENDS = re.compile(rf"[<\[◁]/{_THOUGHT}[>\]▷]", re.I)
_REASON = re.compile(r"\breason\b\W{0,6}(.*)", re.IGNORECASE | re.DOTALL)
_CHOICE = re.compile(
    r"\W{0,4}(?:(?:the|my|final|better|best|winner|choice|verdict|preference|preferred|response"
    r"|answer|option|is|it's|i|prefer|choose|boxed)\W{1,4})*"
    r"((?-i:A|B)|[ab](?=\W*(?:\n|\Z))|(?:a\s+)?tie)\b"
    r"(?=\W*(?:\n|\Z)|\W{0,3}[:;,.)–—-]|(?<=tie)\s*\("
    r"|\s+is\s+(?:(?:the|a|bit|much|far|clearly|slightly)\s+)*"
    r"(?:better|best|prefer(?:red|able)|superior|winner)\b)",
    re.IGNORECASE,
)
_BOTH = re.compile(
    r"\W{0,4}(?:(?:response|answer)\W{1,4})?A\b(?:\W{1,4}(?:(?:or|and)\s+)?B\b"
    r"|\W{0,3}:.*^\W{0,4}(?:(?:response|answer)\W{1,4})?B\W{0,3}:)",
    re.I | re.S | re.M,
)
_CHOICES = {"a": 1.0, "b": -1.0}


@dataclass(frozen=True)
class Reading:
    """A reply as it was understood."""

    value: float | None
    """A score from 0 to 100, or a preference: 1 for A, -1 for B, 0 for neither. None: the reply
    holds neither."""
    reason: str


def read_score(reply: str) -> Reading:
    """The score from 0 to 100 in a judge's reply.

    A labelled number that the reply begins with is taken first (`Score: 85`, `{"score": 85}`), then
    labelled ones that agree, or the one called final, then a number that the reply begins with,
    then one that is named a score, or given as one (`I would rate this 45`) where no other could
    be one. `85/100` is 85; `8/10`, `0.85`, a range, `<90`, a number below 0 or over 100, one that
    counts something and several that differ are none: what it would be on our scale is a guess.
    """
    text = _answer(reply)
    found = _score(_marked(text))
    return Reading(float(found) if found else None, _reason(text))


def _score(marked: str) -> str:
    """What the mark of the score holds; empty where there is none."""
    if labelled := list(_LABELLED.finditer(marked)):
        if not re.search(r"\w", marked[: labelled[0].start()]):
            return labelled[0]["score"]
        # A reply may quote what the response says of itself, `Score: 100`.
        return _the_one([one for one in labelled if one["final"]] or labelled)
    if first := _FIRST.match(marked):
        return first["score"]
    if named := list(_NAMED.finditer(marked)):
        return _the_one(named)
    begin = _REASON.search(marked)
    given = _GIVEN.search(marked[: begin.start()] if begin else marked)
    could_be = {score for score in re.findall(_MARK, marked) if score}
    return given["score"] if given and len(could_be) == 1 else ""


def _the_one(found: list[re.Match[str]]) -> str:
    """What all of them hold, empty where they differ."""
    scores = {one["score"] for one in found}
    return scores.pop() if len(scores) == 1 else ""


def _marked(text: str) -> str:
    """The text with a mark for each number."""
    text = _SCALE.sub(" ", text.replace("⟦", "[").replace("⟧", "]"))
    return _NUMBER.sub(_mark, _LIST.sub("⟦⟧ ", text))


def _mark(found: re.Match[str]) -> str:
    text, number, sign = found.string, found["number"], found["sign"] or ""
    compared = found["compared"] or ""
    before = text[max(found.start() - 9, 0) : found.start()]
    none = (
        re.search(r"[^\W⺀-鿿가-힯]\Z|[.,/]\Z", before)  # a part of something longer
        or (compared and not (compared == "<" and text[found.end() :].startswith(">")))
        or (sign and (len(sign) == 1 or re.search(r"[:：=(][ \t]*\Z", before)))
        or found["unit"][:1] not in _UNITS
        or (found["scale"] and float(found["scale"]) != 100)
        or found["range"]
        or found["counted"] is not None
        or not re.fullmatch(r"\d+(\.\d+)?", number)
        or not (float(number) == 0 or 1 <= float(number) <= 100)
    )
    return "⟦⟧" if none else f"{compared}{sign}⟦{float(number):g}⟧"


def _answer(reply: str) -> str:
    """What a reply says once its thoughts, which may weigh other scores, are left out."""
    if len(reply) > LONGEST_REPLY:
        begin = max((found.start() for found in _THOUGHT_ENDS.finditer(reply)), default=0)
        reply = reply[begin : begin + LONGEST_REPLY]
    for thought in _THOUGHTS:
        reply = thought.sub("", reply)
    return reply.strip()


def read_preference(reply: str) -> Reading:
    """`A`, `B` or `tie` at the beginning of a judge's reply, or at its end behind the reason."""
    text = _answer(reply)
    behind = text.rpartition("\n")[2] if _REASON.match(text) else ""
    found = _CHOICE.match(text) or _CHOICE.match(behind)
    if _BOTH.match(text):  # `A, B or tie`, or a word about each: no choice
        found = None
    return Reading(_CHOICES.get(found[1].lower(), 0.0) if found else None, _reason(text))


def _reason(text: str) -> str:
    found = _REASON.search(text)
    return (found[1] if found else text).strip(' \n"}')
