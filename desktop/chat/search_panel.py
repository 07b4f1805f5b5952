"""The search field and what it found: as it is typed, one search at a time, on a thread beside the window.

Knows hits; what finds them is lent to it (`find`), what is done with one is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QListView, QVBoxLayout, QWidget

from desktop.chat.chat_rows import ENTRY, UNTITLED, AnyIndex
from desktop.chat.row_painter import HitPainter
from desktop.dialogs.background import Background, problem_text
from desktop.search import Found, Hit

ASK_AFTER_MS = 120
_Key = Qt.Key


class SearchField(QLineEdit):
    """Where the words are typed. Escape leaves; Enter or the arrow down goes to the first hit."""

    left = Signal()
    entered = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setPlaceholderText("Search chats")
        self.setAccessibleName("Search chats")
        self.setToolTip('All words must be found; "in quotes" they stand together')
        self.setClearButtonEnabled(True)
        self.setMaxLength(500)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == _Key.Key_Escape:
            self.left.emit()
        elif event.key() in (_Key.Key_Return, _Key.Key_Enter, _Key.Key_Down):
            self.entered.emit()
        else:
            super().keyPressEvent(event)


class HitModel(QAbstractListModel):
    """Hits for a view."""

    hits: Sequence[Hit] = ()

    def set_hits(self, hits: Sequence[Hit]) -> None:
        """Show these."""
        self.beginResetModel()
        self.hits = hits
        self.endResetModel()

    def rowCount(self, parent: AnyIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.hits)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self.hits):
            return None
        hit = self.hits[index.row()]
        if role == ENTRY:
            return hit
        if role == Qt.ItemDataRole.DisplayRole:
            return hit.title or UNTITLED
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            who = {"user": "You: ", "assistant": "Reply: "}.get(hit.role, "")
            return f"{hit.title or UNTITLED}\n{who}{hit.text}" if hit.text else hit.title or UNTITLED
        return None


class Hits(QListView):
    """The list of hits."""

    escaped = Signal()
    above = Signal()  # up from the first one
    moved = Signal(QModelIndex)  # by a key

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("What was found")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.viewport().setAutoFillBackground(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == _Key.Key_Escape:
            self.escaped.emit()
        elif event.key() == _Key.Key_Up and self.currentIndex().row() <= 0:
            self.above.emit()
        elif event.key() in (_Key.Key_Return, _Key.Key_Enter) and self.currentIndex().isValid():
            self.moved.emit(self.currentIndex())
        else:
            before = self.currentIndex()
            super().keyPressEvent(event)
            if self.currentIndex() != before:
                self.moved.emit(self.currentIndex())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.scheduleDelayedItemsLayout()


class SearchPanel(QWidget):
    """What was found, in the place of the list of chats."""

    opened = Signal(object, str)  # the hit, and what was searched for
    left = Signal()
    left_upwards = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.finder: Callable[[str], Found] = lambda _: Found()
        self._wanted = ""
        self._shown = ""  # what the hits are for
        self._running = False
        self._enter = False  # Enter came before the hits did
        self._background = Background(self)
        self._delay = QTimer(self)
        self._delay.setSingleShot(True)
        self._delay.setInterval(ASK_AFTER_MS)
        self._delay.timeout.connect(self._start)
        self.status = QLabel(self)
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setWordWrap(True)
        self.status.setContentsMargins(16, 0, 12, 0)
        self.model = HitModel(self)
        self.list = Hits(self)
        self.list.setItemDelegate(HitPainter(self.list))
        self.list.setModel(self.model)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.status)
        layout.addWidget(self.list, 1)
        self.list.moved.connect(self._open)
        self.list.clicked.connect(self._open)
        self.list.escaped.connect(self.left)
        self.list.above.connect(self.left_upwards)

    @property
    def query(self) -> str:
        """What the shown hits are for."""
        return self._shown

    def ask(self, text: str) -> None:
        """Search for this in a moment, unless more is typed."""
        self._wanted, self._enter = text, False
        if text.strip():
            self._delay.start()
        else:
            self._delay.stop()
            self._show(Found(), "")

    def enter(self) -> None:
        """Go to the first hit and open it, as soon as it is there."""
        if self._shown != self._wanted:
            self._enter = True
            if self._delay.isActive():
                self._delay.stop()
                self._start()
        elif self.model.hits:
            index = self.list.currentIndex() if self.list.currentIndex().isValid() else self.model.index(0)
            self.list.setFocus()
            self.list.setCurrentIndex(index)
            self._open(index)

    def _start(self) -> None:
        if self._running:
            return  # its end starts the next one
        self._running = True
        text, find = self._wanted, self.finder
        self._background.run(lambda: find(text), lambda found: self._done(text, found), lambda e: self._failed(text, e))

    def _done(self, text: str, found: Found) -> None:
        self._running = False
        if text != self._wanted:
            if self._wanted.strip() and not self._delay.isActive():
                self._start()
            return
        self._show(found, text)

    def _failed(self, text: str, error: Exception) -> None:
        self._running = False
        self._show(Found(), text)
        self.status.setText(problem_text(error))

    def _show(self, found: Found, text: str) -> None:
        self._shown = text
        self.model.set_hits(found.hits)
        self.list.scrollToTop()
        self.status.setText(words(found, text))
        if self._enter:
            self._enter = False
            self.enter()

    def _open(self, index: QModelIndex) -> None:
        hit = index.data(ENTRY)
        if isinstance(hit, Hit):
            self.opened.emit(hit, self._shown)


def words(found: Found, text: str) -> str:
    """How much was found, for a person."""
    count = len(found.hits)
    if not text.strip():
        return ""
    if not count:
        return f"Nothing was found for “{text.strip()}”."
    if found.more:
        return f"The latest {count} places; there are more."
    return "1 place" if count == 1 else f"{count} places"
