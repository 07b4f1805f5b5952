"""What an empty chat shows: a hint, and three questions to begin with.

The questions are chosen to show the drafters at work: one that repeats itself, one of code, one of plain prose.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

SAMPLES = (
    ("Rewrite some code", "Write a Python class for a stack, then write it again with type hints added."),
    ("Explain something", "Explain in three short paragraphs why the sky is blue."),
    ("Make a list", "List the months of the year with the number of days of each, as a table."),
)
WIDEST = 540


class EmptyState(QWidget):
    """A friendly page; `picked` carries the text of the question that was clicked."""

    picked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title = QLabel("What shall we write?")
        font = title.font()
        font.setPointSizeF(font.pointSizeF() * 1.7)
        font.setBold(True)
        title.setFont(font)
        self._hint = QLabel()
        self._hint.setWordWrap(True)
        self._hint.setTextFormat(Qt.TextFormat.PlainText)
        for label in (title, self._hint):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._buttons: list[tuple[QPushButton, str, str]] = []
        self._column = QWidget()
        column = QVBoxLayout(self._column)
        column.setSpacing(8)
        column.addWidget(title)
        column.addWidget(self._hint)
        column.addSpacing(12)
        for name, prompt in SAMPLES:
            button = QPushButton(name)
            button.setToolTip(prompt)
            button.setAccessibleName(name)
            button.setAccessibleDescription(prompt)
            button.setMinimumHeight(button.fontMetrics().lineSpacing() * 2 + 16)
            button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            self._buttons.append((button, name, prompt))
            button.clicked.connect(lambda _=False, p=prompt: self.picked.emit(p))
            column.addWidget(button)
        outer = QVBoxLayout(self)
        outer.addStretch(2)
        outer.addWidget(self._column, 0, Qt.AlignmentFlag.AlignHCenter)
        outer.addStretch(3)
        self.set_model("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = min(self.width() - 24, WIDEST)
        self._column.setFixedWidth(max(wide, 100))
        for button, name, prompt in self._buttons:
            room = wide - 48
            text = button.fontMetrics().elidedText(prompt, Qt.TextElideMode.ElideRight, room)
            button.setText(f"{name}\n{text}")

    def set_model(self, name: str) -> None:
        """Say who answers; "" while no model is loaded."""
        if name:
            text = (
                f"{name} answers, on this machine alone. Tinted words were drafted ahead and held; "
                "the sidebar shows what that gains."
            )
        else:
            text = "You can write and send already; it is answered as soon as a model is loaded."
        self._hint.setText(text)
