"""The mark over a chat that is kept in memory only."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from desktop.chat.row_painter import draw_incognito
from desktop.theme import colors_of

WORDS = "Incognito: in memory only, never stored"  # fits the narrowest window
MORE = "Nothing of this chat is written to the disk, and it is gone when Outrider ends."


class IncognitoStrip(QWidget):
    """A dark band in light and a light one in dark: the opposite of all else in the window."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Incognito chat")
        self.setAccessibleDescription(MORE)
        self.setToolTip(MORE)
        self._label = QLabel(WORDS, self)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        row = QHBoxLayout(self)
        row.setContentsMargins(44, 7, 16, 7)
        row.addWidget(self._label)
        self._recolor()

    def _recolor(self) -> None:
        colors = colors_of(self)
        palette = self._label.palette()
        if palette.color(self._label.foregroundRole()) != colors.base:
            palette.setColor(self._label.foregroundRole(), colors.base)
            self._label.setPalette(palette)
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_label"):
            self._recolor()
        super().changeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.text)
        draw_incognito(painter, QPointF(26, self.height() / 2), colors.base, 16)
        painter.setPen(QPen(colors.border, 1))
        painter.drawLine(QRectF(self.rect()).bottomLeft(), QRectF(self.rect()).bottomRight())
        painter.end()
