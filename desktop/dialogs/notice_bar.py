"""A line that says what was just done, with the one button that takes it back or goes on from it.

Goes by itself after a while, but not while it is pointed at or has the keyboard's focus.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QEnterEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from desktop.bar import Bar
from desktop.theme import colors_of

STAYS_MS = 12_000


class NoticeBar(Bar):
    """Hidden until `tell`. `gone` is called once for each notice: the button was not pressed and it is over."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Notice")
        self._text = QLabel()
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setWordWrap(True)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.button = QPushButton()
        self.button.clicked.connect(self.act)
        self._close = self.dismiss_button("Dismiss the notice")
        self._action: Callable[[], object] | None = None
        self._gone: Callable[[], object] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(STAYS_MS)
        self._timer.timeout.connect(self._elapsed)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 6, 8, 6)
        row.addWidget(self._text, 1)
        row.addWidget(self.button)
        row.addWidget(self._close)
        self.hide()

    def tell(
        self,
        text: str,
        button: str = "",
        action: Callable[[], object] | None = None,
        gone: Callable[[], object] | None = None,
    ) -> None:
        """Say something; the notice before it is over with that."""
        self.dismiss()
        self._text.setText(text)
        self.setAccessibleDescription(text)
        self._action, self._gone = action, gone
        self.button.setText(button)
        self.button.setVisible(action is not None)
        self.show()
        self._timer.start()

    def text(self) -> str:
        """What is said; "" if nothing is."""
        return "" if self.isHidden() else self._text.text()

    @property
    def can_act(self) -> bool:
        """Whether there is something to take back."""
        return self._action is not None

    def act(self) -> None:
        """Do what the button says."""
        action, self._action, self._gone = self._action, None, None
        self.dismiss()
        if action is not None:
            action()

    def dismiss(self) -> None:
        """The notice is over."""
        self._timer.stop()
        self.hide()
        gone, self._action, self._gone = self._gone, None, None
        if gone is not None:
            gone()

    def _elapsed(self) -> None:
        if self.underMouse() or self.button.hasFocus() or self._close.hasFocus():
            self._timer.start()
        else:
            self.dismiss()

    def enterEvent(self, event: QEnterEvent) -> None:
        self._timer.start()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        self.paint_box(painter, colors.border, colors.panel)
        painter.end()
