"""The places of a search in the open chat: marked in the text, counted, gone through one by one.

What is not built yet is counted by its source and looked at once it is built, so that a long chat opens as quickly
with a search as without. Knows the transcript and words; does not know the store or the search.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from desktop.bar import Bar
from desktop.chat.message_view import MessageView
from desktop.chat.transcript import Transcript
from desktop.theme import colors_of
from desktop.words import Term, places, terms


class HitBar(Bar):
    """Above the transcript while a search is shown in it: how many places, the one before, the next, done."""

    closed = Signal()

    def __init__(self, transcript: Transcript, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Places in this chat")
        self._transcript = transcript
        self._wanted: list[Term] = []
        self._query = ""
        self._counts: dict[int, int] = {}  # places in each message, oldest first
        self._now: tuple[int, int] | None = None  # message, and which of its places
        self._text = QLabel(self)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 5, 12, 5)
        row.setSpacing(2)
        row.addWidget(self._text, 1)
        self.previous_button = self._button("↑", "Previous place", self.previous)
        self.next_button = self._button("↓", "Next place", self.next)
        self.close_button = self._button("✕", "Leave the search in this chat", self.leave)
        for button in (self.previous_button, self.next_button, self.close_button):
            row.addWidget(button)
        transcript.built.connect(self._built)
        transcript.shown.connect(self._shown)
        transcript.changed.connect(self._changed)
        self.hide()

    def _button(self, sign: str, name: str, act: object) -> QToolButton:
        button = QToolButton(self)
        button.setText(sign)
        button.setAccessibleName(name)
        button.setToolTip(name)
        button.setAutoRaise(True)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(act)
        return button

    # ------------------------------------------------------------------------------------------- shown

    @property
    def active(self) -> bool:
        """Whether a search is shown."""
        return bool(self._wanted)

    def text(self) -> str:
        """What is said about the search; "" if none is shown."""
        return self._text.text() if self.active else ""

    def search(self, query: str, message_id: int | None = None) -> None:
        """Mark a search in the open chat and go to its first place, in a message if one is given."""
        self._query, self._wanted = query.strip(), terms(query)
        self._count()
        self.setVisible(self.active)
        self._now = None
        if message_id is not None and self._transcript.build_to(message_id) is not None:
            self._recount(message_id)
            if self._counts.get(message_id):
                self._go(message_id, 0)
                return
            view = self._transcript.view_of(message_id)
            if view is not None:  # found in what is not shown, such as a link's address
                self._transcript.bring(view, view.view.rect().adjusted(0, 0, 0, 40 - view.view.height()))
        self._say()

    def leave(self) -> None:
        """Show the chat without marks."""
        if self.active:
            self._query, self._wanted, self._now = "", [], None
            for view in self._transcript.views:
                view.view.set_hits([])
            self.hide()
            self.closed.emit()

    def _count(self) -> None:
        self._counts = {}
        for row in self._transcript.rows:
            view = self._transcript.view_of(row.id)
            self._counts[row.id] = self._mark(view) if view is not None else len(places(row.text, self._wanted))

    def _recount(self, message_id: int) -> None:
        view = self._transcript.view_of(message_id)
        if view is not None:
            self._counts[message_id] = self._mark(view)

    def _mark(self, view: MessageView) -> int:
        found = view.view.places_of(self._wanted) if self._wanted else []
        now = self._now[1] if self._now is not None and self._now[0] == view.row.id else -1
        view.view.set_hits(found, now)
        return len(found)

    def _shown(self) -> None:
        """Another chat, or another branch of this one, is shown."""
        self.leave()

    def _built(self, views: list[MessageView]) -> None:
        if self.active:
            for view in views:
                self._counts[view.row.id] = self._mark(view)
            self._say()

    def _changed(self, message_id: int) -> None:
        if self.active:
            self._recount(message_id)
            self._say()

    # ------------------------------------------------------------------------------------- one by one

    def next(self) -> None:
        """Go to the next place; after the last one comes the first."""
        self._step(1)

    def previous(self) -> None:
        """Go to the place before."""
        self._step(-1)

    def _step(self, by: int) -> None:
        order = [row.id for row in self._transcript.rows]
        if not self._wanted or not any(self._counts.values()):
            return
        if self._now is None or self._now[0] not in order:
            at, k = (-1, 0) if by > 0 else (len(order), 0)
        else:
            at, k = order.index(self._now[0]), self._now[1] + by
            if 0 <= k < self._counts.get(order[at], 0):
                self._go(order[at], k)
                return
        for _ in range(len(order) + 1):
            at = (at + by) % len(order)
            if self._counts.get(order[at]):
                self._transcript.build_to(order[at])
                count = self._counts.get(order[at], 0)  # of what is shown, now that it is
                if count:
                    self._go(order[at], 0 if by > 0 else count - 1)
                    return

    def _go(self, message_id: int, k: int) -> None:
        before = self._now
        self._now = (message_id, k)
        if before is not None and before[0] != message_id:
            self._recount(before[0])
        self._recount(message_id)
        view = self._transcript.view_of(message_id)
        if view is not None and k < len(view.view.typesetter.hits):
            cursor = QTextCursor(view.view.document())
            cursor.setPosition(view.view.typesetter.hits[k][0])
            self._transcript.lay_out()
            self._transcript.bring(view, view.view.cursorRect(cursor))
        self._say()

    def _say(self) -> None:
        total = sum(self._counts.values())
        many = total > 1
        for button in (self.previous_button, self.next_button):
            button.setEnabled(many or (total == 1 and self._now is None))
        if self._now is not None and total:
            before = 0
            for number, count in self._counts.items():
                if number == self._now[0]:
                    break
                before += count
            words = f"{before + self._now[1] + 1} of {total}"
        else:
            words = {0: "no place", 1: "1 place"}.get(total, f"{total} places")
        self._text.setText(f"“{self._query}”: {words} in this chat")
        self.setAccessibleDescription(self._text.text())

    # ------------------------------------------------------------------------------------------ looks

    def dismiss(self) -> None:
        """Escape leaves the search."""
        self.leave()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.panel)
        painter.setPen(QPen(colors.border, 1))
        painter.drawLine(QRectF(self.rect()).bottomLeft(), QRectF(self.rect()).bottomRight())
        painter.end()
