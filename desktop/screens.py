"""A window that was kept from another day, put where it can be seen on the screens that are there now."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

GRIP = QSize(160, 24)  # of the title bar: that much of it on a screen, and the window can be dragged


def brought_back(window: QRect, screens: Sequence[QRect]) -> QRect:
    """Where a window with this frame should stand. Stays as it is while its title bar can be reached.

    `screens` are the parts of each that are free of bars, the main one first. The window keeps its size if it fits.
    """
    title = QRect(window.topLeft(), QSize(window.width(), GRIP.height()))
    for screen in screens:
        seen = screen.intersected(title)
        if seen.width() >= min(GRIP.width(), window.width()) and seen.height() >= GRIP.height():
            return window
    if not screens:
        return window
    screen = max(screens, key=lambda s: _area(s.intersected(window)))  # the first of those that have as little of it
    size = window.size().boundedTo(screen.size())
    left = min(max(window.left(), screen.left()), screen.right() + 1 - size.width())
    top = min(max(window.top(), screen.top()), screen.bottom() + 1 - size.height())
    if not screen.intersects(window):  # its screen is gone: the place on it says nothing
        left = screen.left() + (screen.width() - size.width()) // 2
        top = screen.top() + (screen.height() - size.height()) // 2
    return QRect(left, top, size.width(), size.height())


def _area(rect: QRect) -> int:
    return max(0, rect.width()) * max(0, rect.height())


def bring_back(window: QWidget) -> None:
    """See to it that a window can be reached; called when it was restored and when a screen goes."""
    main = QGuiApplication.primaryScreen()
    screens = sorted(QGuiApplication.screens(), key=lambda screen: screen is not main)
    frame = window.frameGeometry()
    fresh = brought_back(frame, [screen.availableGeometry() for screen in screens])
    if fresh != frame and not window.isFullScreen() and not window.isMaximized():
        window.resize(fresh.size() - (frame.size() - window.size()))
        window.move(fresh.topLeft())
