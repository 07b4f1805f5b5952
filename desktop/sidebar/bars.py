"""Two thin bars: where the time of the rounds went, and how much of the machine's memory is in use.

Painted from the palette; every part has its words beside it, so that no colour is the only sign.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QBrush, QColor, QPainter, QPaintEvent, QPalette, Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

HEIGHT = 8


class PartsBar(QWidget):
    """A bar of fixed height, filled from the left with parts of the whole in different textures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: tuple[float, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(HEIGHT)

    def sizeHint(self) -> QSize:
        return QSize(200, HEIGHT)

    def set_parts(self, parts: tuple[float, ...], words: str) -> None:
        """Show `parts`, shares of the whole from 0 to 1; `words` say the same to a screen reader."""
        self._parts = parts
        self.setAccessibleDescription(words)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        text = self.palette().color(QPalette.ColorRole.WindowText)
        track = QColor(text)
        track.setAlphaF(0.12)
        painter.fillRect(self.rect(), track)
        at = 0.0
        brushes = part_brushes(self.palette())
        for part, brush in zip(self._parts, brushes, strict=False):
            wide = max(0.0, min(part, 1.0)) * self.width()
            painter.fillRect(QRectF(at, 0, wide, self.height()), brush)
            at += wide
        painter.end()


def part_brushes(palette: QPalette) -> tuple[QBrush, QBrush, QBrush]:
    """The three textures of a bar: solid, dense and striped, told apart without colour too."""
    accent = palette.color(QPalette.ColorRole.Highlight)
    soft = QColor(accent)
    soft.setAlphaF(0.45)
    grey = QColor(palette.color(QPalette.ColorRole.WindowText))
    grey.setAlphaF(0.45)
    return QBrush(accent), QBrush(soft), QBrush(grey, Qt.BrushStyle.BDiagPattern)
