"""Tells screen readers what is being written, a sentence at a time, while it is written.

Token by token it could not be listened to, and a reader falls silent when each word interrupts the one before. What
has come while the last announcement is likely still being read is put together into the next. Knows no widgets but the
one in whose name it speaks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from desktop.chat.parter import Parter
from desktop.settings import ANNOUNCE, Settings
from desktop.store import MessageRow
from mlx_spec.events import Finished, Round

LETTERS_A_SECOND = 15.0  # about how fast a reader speaks
LONGEST = 600  # characters of one announcement
ENDS = {
    "stopped": "Stopped.",
    "failed": "The reply failed.",
    "cut": "The reply broke off.",
    "done": "The reply is finished.",
}

# A full stop ends a sentence where white space and then no small letter follow; others stand without a space after.
_END = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s+[^\sa-z])|[。！？]+[」』”]*|\n")
_LISTED = re.compile(r"\s*(?:\d+|[a-zA-Z])[.)]$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINE_MARKS = re.compile(r"^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+(?:\[[ xX]\]\s+)?)+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SIGNS = re.compile(r"(\*\*|__|~~|`+|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w))")
_RULE = re.compile(r"[\s|:*_=-]*")


def spoken(text: str) -> str:
    """A piece of Markdown as it is read aloud: without its signs."""
    if _RULE.fullmatch(text):
        return ""
    text = _LINK.sub(r"\1", _LINE_MARKS.sub("", text))
    text = _SIGNS.sub("", text)
    if text.strip().startswith("|"):
        text = ", ".join(cell.strip() for cell in text.strip().strip("|").split("|"))
    return " ".join(text.split())


class Sentences:
    """Takes text as it comes and gives whole sentences. A block of code is told by its length, not read."""

    def __init__(self) -> None:
        self._text = ""
        self._fence = ""  # that is open
        self._lines = 0  # in it

    def feed(self, text: str) -> list[str]:
        """The sentences that are whole now."""
        self._text += text
        found = []
        while (piece := self._next()) is not None:
            if words := spoken(piece):
                found.append(words)
        return found

    def finish(self) -> list[str]:
        """What is left when no more comes."""
        found = self.feed("\n")
        if self._fence:
            found.append(self._code())
        return found

    def _code(self) -> str:
        lines, self._fence, self._lines = self._lines, "", 0
        return f"Code, {lines} line{'' if lines == 1 else 's'}."

    def _next(self) -> str | None:
        if self._fence or _FENCE.match(self._text):
            line, end, rest = self._text.partition("\n")
            if not end:
                return None
            self._text = rest
            mark = _FENCE.match(line)
            if not self._fence:
                self._fence = mark[1] if mark else "```"
            elif mark and mark[1].startswith(self._fence) and not line.strip().strip(mark[1][0]):
                return self._code()
            else:
                self._lines += 1
            return ""
        for match in _END.finditer(self._text):
            piece = self._text[: match.end()]
            if _LISTED.fullmatch(piece.rstrip("\n").rsplit("\n", 1)[-1]) and not piece.endswith("\n"):
                continue  # the number of a list's line
            self._text = self._text[match.end() :].lstrip(" ")
            return piece
        return None


def say(widget: QWidget, words: str) -> None:
    """One announcement, after what is being read."""
    event = QAccessibleAnnouncementEvent(widget, words)
    event.setPoliteness(QAccessible.AnnouncementPoliteness.Polite)
    QAccessible.updateAccessibility(event)


class Announcer(QObject):
    """Speaks for `widget`, while a screen reader listens and the person wants it."""

    def __init__(
        self,
        widget: QWidget,
        settings: Settings,
        say: Callable[[QWidget, str], None] = say,
        listening: Callable[[], bool] = QAccessible.isActive,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(widget)
        self._widget, self._settings = widget, settings
        self._say, self._listening, self._clock = say, listening, clock
        self._message: int | None = None
        self._begin()
        self._waiting: list[str] = []
        self._free_at = 0.0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.speak)

    def _begin(self) -> None:
        self._parter, self._sentences, self._thought = Parter(), Sentences(), False

    def add_rounds(self, message: int, rounds: Sequence[Round]) -> None:
        """More of a reply came."""
        if not self._settings.get(ANNOUNCE) or not self._listening():
            self._message = None
            return
        if message != self._message:
            self._message = message
            self._begin()
        self._take([(span.text, None) for r in rounds for span in r.spans])

    def _take(self, pieces: list[tuple[str, str | None]]) -> None:
        parted = self._parter.feed(pieces)
        if parted.thought and not self._thought:
            self._thought = True
            self._waiting.append("Thinking.")
        if parted.restart:
            self._sentences = Sentences()
        self._waiting += self._sentences.feed("".join(text for text, _ in parted.answer))
        self.speak()

    def reply_finished(self, row: MessageRow, finished: Finished | None) -> None:
        """The reply is over: what is left is said, and how it ended."""
        if row.id != self._message:
            return
        self._message = None
        if finished is not None:
            tail = [(span.text, None) for span in finished.tail]
            for parted in (self._parter.feed(tail), self._parter.finish()):
                self._waiting += self._sentences.feed("".join(text for text, _ in parted.answer))
        if row.state == "stopped":
            self._waiting.clear()  # who stops it has heard enough
        else:
            self._waiting += self._sentences.finish()
        self._waiting.append(ENDS.get(row.state, ""))
        self.speak()

    def speak(self) -> None:
        """Say what waits, unless the last words are likely still being read."""
        left = self._free_at - self._clock()
        if not self._waiting:
            return
        if left > 0:
            if not self._timer.isActive():
                self._timer.start(round(left * 1000) + 1)
            return
        words = self._waiting.pop(0)
        while self._waiting and len(words) + len(self._waiting[0]) < LONGEST:
            words += " " + self._waiting.pop(0)
        self._free_at = self._clock() + len(words) / LETTERS_A_SECOND
        self._say(self._widget, words.strip())
        if self._waiting:
            self.speak()
