"""The bar above the composer: one sentence about what went wrong, what to do, and a button that does it.

It stands in the way of nothing: no dialog, nothing to confirm, the chat stays usable. Dismissed by its button, by
Escape while it has the focus, or when whoever showed it says that the trouble is over.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from desktop.bar import Bar
from desktop.theme import colors_of, mix
from mlx_spec.events import Failed


class ProblemBar(Bar):
    """Hidden until `show_problem`."""

    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Problem")
        self._message = QLabel()
        self._message.setTextFormat(Qt.TextFormat.PlainText)
        self._message.setWordWrap(True)
        font = self._message.font()
        font.setBold(True)
        self._message.setFont(font)
        self._remedy = QLabel()
        self._remedy.setTextFormat(Qt.TextFormat.PlainText)
        self._remedy.setWordWrap(True)
        for label in (self._message, self._remedy):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._button = QPushButton()
        self._button.clicked.connect(self._act)
        self._close = self.dismiss_button("Dismiss the problem")
        self._action: Callable[[], None] | None = None

        texts = QVBoxLayout()
        texts.setSpacing(1)
        texts.addWidget(self._message)
        texts.addWidget(self._remedy)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 8, 8, 8)
        row.addLayout(texts, 1)
        row.addWidget(self._button, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def show_problem(self, failed: Failed, button: str = "", action: Callable[[], None] | None = None) -> None:
        """Show a failure; `button` names what `action` does, no button without it."""
        self._message.setText(failed.message)
        self._remedy.setText(failed.remedy)
        self._remedy.setVisible(bool(failed.remedy))
        self._button.setText(button)
        self._button.setVisible(bool(button) and action is not None)
        self._action = action
        self.setAccessibleDescription(f"{failed.message} {failed.remedy}".strip())
        self.show()

    def text(self) -> str:
        """What is shown, message and remedy."""
        return self.accessibleDescription() if not self.isHidden() else ""

    def dismiss(self) -> None:
        """Hide the bar."""
        if not self.isHidden():
            self.hide()
            self.dismissed.emit()

    def _act(self) -> None:
        action = self._action
        self.dismiss()
        if action is not None:
            action()

    def paintEvent(self, event: QPaintEvent) -> None:
        tones = colors_of(self)
        painter = QPainter(self)
        self.paint_box(painter, tones.danger, mix(tones.base, tones.danger, 0.10))
        painter.fillRect(QRectF(5, 8, 3, self.height() - 16), tones.danger)
        painter.end()
