"""What fills the model's context: tokens counted by the engine, or an estimate that is marked as one.

Counting is asked of the engine and answered when it has time; until then, and while there is no engine, a text's
bytes and what is known of this model's tokens give a number. Knows texts and events; no widget, no database.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from desktop.attachments import fenced, split
from mlx_spec.events import Count, Counted, Message, Problem

BYTES = 3.8  # of UTF-8 in a token, while nothing is known of the model
AROUND = 6  # tokens of the chat template around a message, while nothing is known of it
ASK_MS = 120
SHORT = 24  # bytes; an estimate of less teaches nothing
REPLY = 512  # tokens that stay free for a reply where turns are left out


def spare(length: int) -> int:
    """Tokens of a context that a prompt leaves free in any case: a few for the reply, and for counts that are a
    little off."""
    return min(128, length // 16)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A number of tokens; `exact` if the engine counted it."""

    number: int
    exact: bool = True

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.number + other.number, self.exact and other.exact)

    def words(self) -> str:
        """ "1,204 tokens" or "about 1,200 tokens"."""
        return f"{self.number:,} tokens" if self.exact else f"about {rounded(self.number):,} tokens"


def rounded(number: int) -> int:
    """An estimate with no more digits than it deserves."""
    step = max(1, 10 ** (len(str(number)) - 2))
    return round(number / step) * step


@dataclass(frozen=True, slots=True)
class Filling:
    """What fills the context, in tokens, and how many it holds (0: no model is loaded).

    `left_out` counts the oldest messages that the model does not see any more.
    """

    system: Tokens
    history: Tokens
    attachments: Tokens
    draft: Tokens
    length: int = 0
    left_out: int = 0

    @property
    def used(self) -> Tokens:
        return self.system + self.history + self.attachments + self.draft

    @property
    def full(self) -> bool:
        """Whether no room is left for a reply."""
        return 0 < self.length <= self.used.number + spare(self.length)


class Full(Problem):
    """A message does not fit. `can_drop` says that it would without the oldest turns."""

    def __init__(self, message: str, remedy: str, can_drop: bool) -> None:
        super().__init__(message, remedy)
        self.can_drop = can_drop


class TokenCounter(QObject):
    """Counts texts for the model that is loaded. `changed` is emitted when estimates became numbers."""

    changed = Signal()

    def __init__(self, send: Callable[[Count], object]) -> None:
        super().__init__()
        self._send = send
        self._known: dict[bytes, int] = {}
        self._wanted: dict[bytes, str] = {}
        self._asked: dict[int, list[tuple[bytes, int]]] = {}  # with the bytes of each text
        self._numbers = itertools.count(1 << 40)  # no reply has these numbers
        self._ready = False
        self._bytes, self._tokens = 0, 0  # of all that was counted
        self._around = AROUND
        self.fixed = 0  # tokens of a prompt that are of no message
        self._rests: dict[int, int] = {}  # what the template took, by the number of messages
        self._had_system = False
        self._lesson: tuple[Sequence[Message], int] = ((), 0)  # a prompt that is not counted yet
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(ASK_MS)
        self._timer.timeout.connect(self._ask)

    def reset(self, ready: bool) -> None:
        """Another model, or none: what was counted does not hold any more."""
        self._known.clear()
        self._asked.clear()
        self._bytes = self._tokens = 0
        self._around = AROUND
        self.fixed, self._rests = 0, {}
        self._lesson = ((), 0)
        self._ready = ready
        if ready:
            self.changed.emit()

    def count(self, text: str, ask: bool = True) -> Tokens:
        """The tokens of a text; where they are not known and `ask`, `changed` tells when they are."""
        if not text:
            return Tokens(0)
        data = text.encode("utf-8", "replace")
        key = hashlib.blake2b(data, digest_size=16).digest()
        known = self._known.get(key)
        if known is not None:
            return Tokens(known)
        if ask and self._ready and key not in self._wanted:
            self._wanted[key] = text
            if not self._timer.isActive():
                self._timer.start()
        return Tokens(max(1, round(len(data) / self._ratio())), exact=False)

    def message(self, text: str) -> Tokens:
        """The tokens of a message and of what the chat template puts around it."""
        return self.content(text) + Tokens(self._around)

    def content(self, text: str, ask: bool = True) -> Tokens:
        """The tokens of a message's text, its files and what was typed counted apart: so no file is counted twice."""
        attached, typed = split(text)
        return sum((self.count(fenced(a), ask) for a in attached), self.count(typed, ask))

    def characters(self, tokens: int, text: str) -> int:
        """How many characters of `text` are about that many tokens."""
        whole = self.count(text)
        return int(len(text) * tokens / max(1, whole.number))

    def learn(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """A prompt had this many tokens: what is not of its texts is of the template.

        Where the texts are not counted yet, since the engine was busy, it is learned when they are.
        """
        self._lesson = (messages, prompt_tokens)
        texts = [self.content(m.content, ask=False) for m in messages]
        if not messages or not all(t.exact for t in texts):
            return
        self._lesson = ((), 0)
        has_system = messages[0].role == "system"  # a template may say something of its own where there is none
        if has_system != self._had_system:
            self._rests, self._had_system = {}, has_system
        rest = max(0, prompt_tokens - sum(t.number for t in texts))
        self._rests[len(messages)] = rest
        few, many = min(self._rests), max(self._rests)
        if few < many:
            self._around = max(0, min(100, round((self._rests[many] - self._rests[few]) / (many - few))))
        else:
            self._around = min(self._around, rest // len(messages))
        self.fixed = max(0, rest - self._around * len(messages))

    def take(self, event: Counted) -> None:
        """The engine counted."""
        asked = self._asked.pop(event.request, None)
        if asked is None:
            return
        for (key, size), number in zip(asked, event.tokens, strict=False):
            self._known[key] = number
            if size >= SHORT:
                self._bytes, self._tokens = self._bytes + size, self._tokens + number
        self.learn(*self._lesson)
        self.changed.emit()

    def _ratio(self) -> float:
        return self._bytes / self._tokens if self._tokens >= 50 else BYTES

    def _ask(self) -> None:
        if not self._wanted:
            return
        number = next(self._numbers)
        self._asked[number] = [(key, len(text.encode("utf-8", "replace"))) for key, text in self._wanted.items()]
        texts = tuple(self._wanted.values())
        self._wanted.clear()
        self._send(Count(number, texts))


def fitting(counter: TokenCounter, messages: Sequence[Message], length: int) -> int:
    """How many of the oldest messages have to go so that the rest leaves room for a reply; 0 if all fit.

    A system message at the head always stays, and so does the last message. Where some have to go, a quarter of the
    context is freed at once: each cut means that the whole prompt is read anew. Raises `Full` if even the last
    message alone does not fit.
    """
    head = 1 if messages and messages[0].role == "system" else 0
    sizes = [counter.message(m.content).number for m in messages]
    total = sum(sizes) + counter.fixed
    if total + spare(length) < length:
        return 0
    least = counter.fixed + sum(sizes[:head]) + sizes[-1]
    if least + spare(length) >= length:
        words = f"This message has about {rounded(least):,} tokens, and the context holds {length:,}."
        raise Full(words, "Shorten it, cut its files, or choose a longer context in Settings.", can_drop=False)
    goal = max(least, min(length - min(REPLY, length // 4), length * 3 // 4))
    gone = 0
    while head + gone < len(messages) - 1 and total > goal:
        total -= sizes[head + gone]
        gone += 1
    while head + gone < len(messages) - 1 and messages[head + gone].role != "user":
        gone += 1  # a chat begins with what the person said
    return gone
