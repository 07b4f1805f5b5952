"""The line over a chat that has settings of its own: says what is different, and leads to them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton

from desktop.theme import colors_of

SIDE = 24


class OwnStrip(QAbstractButton):
    """One line, as wide as the chat; shown only where something is different."""

    opened = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.clicked.connect(lambda: self.opened.emit())
        self.hide()

    def show_words(self, words: str) -> None:
        """What is different in this chat; "" hides the line."""
        self.setText(words)
        self.setToolTip(f"This chat has its own settings. {words}")
        self.setAccessibleName(f"Settings of this chat: {words}")
        self.setVisible(bool(words))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(100, self.fontMetrics().height() + 12)

    def minimumSizeHint(self) -> QSize:
        return QSize(1, self.sizeHint().height())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.panel)
        painter.setPen(QPen(colors.border, 1))
        painter.drawLine(self.rect().bottomLeft(), self.rect().bottomRight())
        inside = self.rect().adjusted(SIDE, 0, -SIDE, 0)
        painter.setPen(colors.text if self.underMouse() or self.hasFocus() else colors.muted)
        words = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, inside.width())
        painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, words)
        if self.hasFocus():
            painter.setPen(QPen(colors.accent, 1.5))
            painter.drawRect(self.rect().adjusted(1, 1, -2, -2))
