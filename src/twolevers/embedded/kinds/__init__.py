"""All kinds of task in the embedded data set. A new kind is one entry in one of the modules."""

from twolevers.embedded.kinds import classifying, facts, finding, lists, rewriting
from twolevers.embedded.kinds.base import Example, Kind

KINDS: tuple[Kind, ...] = (
    *rewriting.KINDS,
    *finding.KINDS,
    *classifying.KINDS,
    *lists.KINDS,
    *facts.KINDS,
)

__all__ = ["KINDS", "Example", "Kind"]
