"""Tells what a model thinks from what it answers, while both arrive.

Models write <think> ... </think>, or begin inside because their chat template has opened it. Knows no Qt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

OPEN, CLOSE = "<think>", "</think>"
_ALONE = re.compile(rf"^[ \t]*{CLOSE}[ \t]*\n", re.MULTILINE)
_AT_END = re.compile(rf"^[ \t]*{CLOSE}[ \t]*\Z", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)

Piece = tuple[str, str | None]  # text, and the drafter that it came from


@dataclass(slots=True)
class Parted:
    """What one step brought. `restart`: all that was taken for the answer so far was thought, and is in `thought`."""

    thought: list[Piece]
    answer: list[Piece]
    restart: bool = False


class Parter:
    """Feed it a reply; it tells thought from answer. The offsets say where either begins in the reply."""

    def __init__(self) -> None:
        self.where = "start"  # then "thought", then "answer"
        self.thought_from = 0
        self.answer_from = 0
        self._text = ""  # all of it
        self._held: list[Piece] = []  # of which it is not known yet where it belongs
        self._seen: list[Piece] = []  # of an answer that may turn out to be thought
        self._implicit = True  # no thought was seen: its end may come without its beginning

    @property
    def open(self) -> bool:
        """Whether the thought has begun and not ended."""
        return self.where == "thought"

    def feed(self, pieces: Sequence[Piece]) -> Parted:
        """Take more text."""
        self._text += "".join(text for text, _ in pieces)
        self._held += pieces
        out = Parted([], [])
        if self.where == "start":
            self._begin()
        if self.where == "thought":
            self._go_on(out)
        if self.where == "answer":
            self._answer(out)
        return out

    def finish(self) -> Parted:
        """No more comes: what was held back belongs where it stands."""
        out = Parted([], [])
        if self.where == "thought":
            out.thought, self._held = self._held, []
        else:
            self.where = "answer"
            self._answer(out, _AT_END)
        return out

    def _begin(self) -> None:
        text = self._text.lstrip()
        if text.startswith(OPEN):
            self.thought_from = len(self._text) - len(text) + len(OPEN)
            self._take(self.thought_from)
            self.where = "thought"
        elif text and not OPEN.startswith(text):
            self.where = "answer"

    def _go_on(self, out: Parted) -> None:
        held = sum(len(text) for text, _ in self._held)
        start = len(self._text) - held
        end = self._text.find(CLOSE, start)
        if end >= 0:
            out.thought = self._take(end - start)
            self._take(len(CLOSE))
            self.answer_from = end + len(CLOSE)
            self.where, self._implicit = "answer", False
            return
        keep = next((n for n in range(min(len(CLOSE) - 1, held), 0, -1) if CLOSE.startswith(self._text[-n:])), 0)
        out.thought = self._take(held - keep)

    def _answer(self, out: Parted, ends: re.Pattern[str] = _ALONE) -> None:
        new = sum(len(text) for text, _ in self._held)
        if self._implicit:
            near = max(0, len(self._text) - new - 2 * len(CLOSE))
            near = self._text.rfind("\n", 0, near) + 1
            end = ends.search(self._text, near) if CLOSE in self._text[near:] else None
            if end is not None and len(_FENCE.findall(self._text[: end.start()])) % 2 == 0:
                everything = [*self._seen, *self._held]
                out.thought, self._held = _split(everything, end.start())
                _, self._held = _split(self._held, end.end() - end.start())
                self.thought_from, self.answer_from = 0, end.end()
                self._implicit, out.restart = False, True
                self._seen = []
            else:
                self._seen += self._held
        out.answer, self._held = self._held, []

    def _take(self, length: int) -> list[Piece]:
        taken, self._held = _split(self._held, length)
        return taken


def _split(pieces: Sequence[Piece], length: int) -> tuple[list[Piece], list[Piece]]:
    """Pieces up to so many characters, and the rest."""
    first: list[Piece] = []
    rest: list[Piece] = []
    for text, drafter in pieces:
        here = max(0, min(len(text), length))
        if here:
            first.append((text[:here], drafter))
        if here < len(text):
            rest.append((text[here:], drafter))
        length -= here
    return first, rest
