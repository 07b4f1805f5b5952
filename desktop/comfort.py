"""What a person asked the system for: more contrast, less motion. Asked anew each time: a change needs no restart."""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from desktop import macos

ASK_EVERY_S = 2.0
_motion = (-ASK_EVERY_S, False)


def more_contrast() -> bool:
    """Whether Increase Contrast, or what another system calls it, is on."""
    if QGuiApplication.instance() is None:
        return False
    hints = QGuiApplication.styleHints()  # kept in a name: what it lends goes when it goes
    return hints.accessibility().contrastPreference() == Qt.ContrastPreference.HighContrast


def less_motion() -> bool:
    """Whether Reduce Motion is on."""
    global _motion
    asked, on = _motion
    if time.monotonic() - asked >= ASK_EVERY_S:
        on = macos.reduce_motion()
        _motion = (time.monotonic(), on)
    return on


def follow_contrast() -> None:
    """Have every widget take its colours anew whenever the wish for contrast changes. Once for an application."""
    hints = QGuiApplication.styleHints()
    hints.accessibility().contrastPreferenceChanged.connect(recolor)


def recolor() -> None:
    """Tell every widget that its colours are others now."""
    for widget in QApplication.allWidgets():
        QApplication.sendEvent(widget, QEvent(QEvent.Type.PaletteChange))
        widget.update()
