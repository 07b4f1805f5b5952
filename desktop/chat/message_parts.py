"""Small widgets of a message: the buttons under it and the ground behind what the person wrote."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QToolButton, QWidget

from desktop.theme import colors_of


class Awake(QWidget):
    """What has such buttons: it knows whether they are seen."""

    @property
    def awake(self) -> bool:
        """Whether the buttons under the message are seen."""
        raise NotImplementedError


class QuietButton(QToolButton):
    """A text button that is seen only while its message is looked at, or while it has the focus; or `always`."""

    def __init__(self, text: str, name: str, message: Awake, always: bool = False) -> None:
        super().__init__(message)
        self.setText(text)
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setAutoRaise(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._message, self._always = message, always

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._always or self._message.awake or self.hasFocus() or self.isChecked():
            super().paintEvent(event)


class Bubble(QWidget):
    """The rounded ground behind what the person wrote."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors_of(self).bubble)
        painter.drawRoundedRect(self.rect(), 14, 14)
