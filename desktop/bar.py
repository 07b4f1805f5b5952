"""What the bars of the window share: Escape dismisses them while they have the focus, and they follow the colours."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPen
from PySide6.QtWidgets import QToolButton, QWidget


class Bar(QWidget):
    """A widget of a line or two that comes and goes above or below the chat."""

    def dismiss(self) -> None:
        """Go away."""
        raise NotImplementedError

    def dismiss_button(self, name: str) -> QToolButton:
        """A button that does so, called `name` for screen readers."""
        button = QToolButton()
        button.setText("✕")
        button.setAutoRaise(True)
        button.setToolTip("Dismiss")
        button.setAccessibleName(name)
        button.clicked.connect(self.dismiss)
        return button

    def paint_box(self, painter: QPainter, line: QColor, fill: QColor) -> None:
        """A box with round corners, as large as the bar."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(line, 1))
        painter.setBrush(fill)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.PaletteChange:
            self.update()
        super().changeEvent(event)
