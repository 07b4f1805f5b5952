"""Tokens to text, bit by bit: never half a character, never part of a stop string.

Each piece of text carries who proposed the token that completed it. This module knows a tokenizer's
`decode` and nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .events import Span

ANCHOR = 4  # tokens before new ones that are decoded along with them
_JOINERS = "\u200d"  # zero width joiner: the character that follows belongs to the same glyph


def merge(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join neighbours of the same source and drop empty ones."""
    out: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if out and out[-1].drafter == span.drafter:
            out[-1] = Span(out[-1].text + span.text, span.drafter)
        else:
            out.append(span)
    return tuple(out)


class TextStream:
    """Push tokens, take spans. `stopped` turns True when a stop string is complete; its text is dropped.

    `before` are the last tokens of a text that is continued: without them some tokenizers drop the space between.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str] = (), before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(s for s in stop if s)
        self._ids: list[int] = list(before)
        # What the ids in the window decode to and was taken already.
        self._shown = self._decode(self._ids) if before else ""
        self._held: list[Span] = []
        self.stopped = False

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def push(self, token: int, drafter: str | None = None) -> tuple[Span, ...]:
        """Add a token; returns the text that is safe to show now."""
        if self.stopped:
            return ()
        self._ids.append(token)
        text = self._decode(self._ids)
        if text.endswith(("\ufffd", *_JOINERS)):
            return ()  # part of a character: it comes with the token that completes it
        new = text[len(self._shown) :]
        self._shown = text
        if len(self._ids) > 16:
            # Decode from a short window; its first token is an anchor, since some tokenizers treat the
            # start of a text specially.
            self._ids = self._ids[-ANCHOR:]
            self._shown = self._decode(self._ids)
        self._held.append(Span(new, drafter))
        return self._release()

    def flush(self) -> tuple[Span, ...]:
        """What is still held back, at the end of a reply. A broken character is dropped."""
        if self.stopped:
            return ()
        rest = self._decode(self._ids)[len(self._shown) :].rstrip("\ufffd")
        spans = merge([*self._held, Span(rest)])
        self._held = []
        return spans

    def _release(self) -> tuple[Span, ...]:
        if not self._stop:
            spans, self._held = merge(self._held), []
            return spans
        text = "".join(s.text for s in self._held)
        found = min((i for i in (text.find(s) for s in self._stop) if i >= 0), default=None)
        if found is not None:
            self.stopped = True
            keep = found
        else:
            keep = len(text) - max(_overlap(text, s) for s in self._stop)
        out, left = [], []
        for span in self._held:
            out.append(Span(span.text[:keep], span.drafter))
            left.append(Span(span.text[keep:], span.drafter))
            keep = max(0, keep - len(span.text))
        self._held = [s for s in left if s.text]
        return merge(out)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a true beginning of `stop`."""
    for n in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0


class Pieces:
    """What single tokens look like, for showing drafts. Half a character shows as U+FFFD."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._anchor = list(tokenizer.encode("a", add_special_tokens=False))[-1:]
        self._start = len(self._text(self._anchor))
        self._known: dict[int, str] = {}

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def __call__(self, token: int) -> str:
        if token not in self._known:
            self._known[token] = self._text([*self._anchor, token])[self._start :]
        return self._known[token]
