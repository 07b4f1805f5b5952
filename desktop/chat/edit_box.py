"""Editing a message in its place: Enter runs it again, Escape leaves everything as it was.

Its files stay with it, unless they are removed here. A reply is edited the same way; there Enter is a new line, as
its text has many, and Ctrl+Enter keeps it. Knows only text.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QFont, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from desktop.attachments import join, split
from desktop.chat.chips import ChipRow
from desktop.chat.composer import Field
from desktop.theme import colors_of

REPLY_LINES = 20  # to which a reply's field grows before it scrolls


class ReplyField(Field):
    """A field for a text of many lines."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not self.composing:
            if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self.entered.emit()
            else:
                self.textCursor().insertText("\n")
                self.ensureCursorVisible()
            return
        super().keyPressEvent(event)


class EditBox(QWidget):
    """A field with the message's text and two buttons."""

    confirmed = Signal(str)
    cancelled = Signal()

    def __init__(self, text: str, font: QFont, parent: QWidget, reply: bool = False) -> None:
        super().__init__(parent)
        self.field = ReplyField(self, lines=REPLY_LINES) if reply else Field(self)
        self.field.setFont(font)
        self.field.setAccessibleName("Edited message")
        attachments, typed = ([], text) if reply else split(text)
        self.chips = ChipRow(self, removable=True)
        self.chips.set_attachments(attachments)
        self.field.setPlainText(typed)
        self.field.moveCursor(self.field.textCursor().MoveOperation.End)
        self.cancel_button = QPushButton("Cancel", self)
        self.run_button = QPushButton("Keep" if reply else "Run again", self)
        if reply:
            self.run_button.setToolTip("As a branch beside the reply (Ctrl+Enter)")
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(self.cancel_button)
        across.addWidget(self.run_button)
        layout = QVBoxLayout(self)
        inset = 10 if reply else 0
        layout.setContentsMargins(inset, inset, inset, inset)
        self._framed = reply
        layout.addWidget(self.chips)
        layout.addWidget(self.field)
        layout.addLayout(across)
        self.setFocusProxy(self.field)
        self.field.entered.connect(self._confirm)
        self.field.escaped.connect(self.cancelled)
        self.run_button.clicked.connect(self._confirm)
        self.cancel_button.clicked.connect(lambda: self.cancelled.emit())

    def _confirm(self) -> None:
        text = join(self.chips.attachments, self.field.toPlainText())
        if text.strip() and not self.field.composing:
            self.confirmed.emit(text)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A reply has no bubble of its own: a frame says that it is being edited."""
        if self._framed:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(colors_of(self).border, 1))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
