"""What a model thought before it answered, folded away above the answer. Knows document views; no messages."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolButton, QVBoxLayout, QWidget

from desktop.chat.document_view import DocumentView
from desktop.theme import colors_of

INDENT = 14  # pixels


class ThoughtView(QWidget):
    """A line that says that there was thought, and the thought under it, folded until a person opens it."""

    def __init__(self, font: QFont | None, parent: QWidget) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.button = QToolButton(self)
        self.button.setAutoRaise(True)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setArrowType(Qt.ArrowType.RightArrow)
        self.button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.button.clicked.connect(self._turn)
        self.view = DocumentView(self, font)
        self.view.setAccessibleName("Thought")
        self.view.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(4)
        layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        inner = QVBoxLayout()
        inner.setContentsMargins(INDENT, 0, 0, 0)
        inner.addWidget(self.view)
        layout.addLayout(inner)
        self.hide()

    def show_words(self, thinking: bool) -> None:
        """Say how much was thought, and whether it goes on."""
        words = len(self.view.typesetter.source.split())
        self.button.setText(f"{'Thinking' if thinking else 'Thought'}: {words:,} word{'' if words == 1 else 's'}")
        self._name()
        self.setVisible(thinking or words > 0)

    def _turn(self) -> None:
        shown = self.view.isHidden()
        self.button.setArrowType(Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow)
        self.view.setVisible(shown)
        self._name()
        self.update()

    def _name(self) -> None:
        self.button.setAccessibleName(f"{self.button.text()}. {'Show' if self.view.isHidden() else 'Hide'} it")

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "button"):
            muted, palette = colors_of(self).muted, self.button.palette()
            if palette.color(self.button.foregroundRole()) != muted:
                palette.setColor(self.button.foregroundRole(), muted)
                self.button.setPalette(palette)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.view.isHidden():
            painter = QPainter(self)
            box = self.view.geometry()
            painter.fillRect(QRectF(4, box.top(), 2, box.height()), colors_of(self).border)
