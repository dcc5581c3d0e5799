"""Tokens to text as they come: whole characters, up to a stop text."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from twolevers.data.tokenizer import get_tokenizer


class TextStream:
    """The text of an answer, a token at a time.

    A character may be spread over several tokens, a stop text too: what could still become either
    is held back. All that is given out, end to end, is the text of all tokens, cut before the stop
    text.

    Args:
        stop: texts before which the answer ends.
        strip: leave out white space at both ends, as the chapter does.
    """

    def __init__(self, stop: Sequence[str] = (), *, strip: bool = False) -> None:
        self.stopped = False
        """A stop text has come; nothing follows."""
        self._stop = tuple(text for text in stop if text)
        self._strip = strip
        self._held = ""  # may become a stop text
        self._space = ""  # white space that text may follow
        self._begun = False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._encoding = get_tokenizer().encoding

    def push(self, token_id: int) -> str:
        """What of the text is certain now that this token has come."""
        text = self._decoder.decode(self._encoding.decode_single_token_bytes(token_id))
        return self._stripped(self._up_to_stop(text))

    def end(self) -> str:
        """The rest; half a character becomes U+FFFD."""
        text = self._up_to_stop(self._decoder.decode(b"", final=True))
        return self._stripped(text + ("" if self.stopped else self._held))

    def _up_to_stop(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        found = [place for stop in self._stop if (place := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            return text[: min(found)]
        certain = len(text) - self._may_become_stop(text)
        self._held = text[certain:]
        return text[:certain]

    def _may_become_stop(self, text: str) -> int:
        """Characters at the end that a stop text begins with."""
        return max(
            (
                length
                for stop in self._stop
                for length in range(1, min(len(stop) - 1, len(text)) + 1)
                if stop.startswith(text[-length:])
            ),
            default=0,
        )

    def _stripped(self, text: str) -> str:
        if not self._strip:
            return text
        text = self._space + text
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        kept = text.rstrip()
        self._space = text[len(kept) :]
        return kept
