from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from desktop import comfort


class Listener(QWidget):
    told = 0

    def changeEvent(self, event: QEvent) -> None:
        self.told += event.type() is QEvent.Type.PaletteChange


def test_a_wish_for_contrast_reaches_every_widget(qtbot: QtBot) -> None:
    assert not comfort.more_contrast()  # the offscreen platform has no preference
    outer, inner = Listener(), Listener()
    inner.setParent(outer)
    qtbot.addWidget(outer)
    comfort.follow_contrast()
    before = (outer.told, inner.told)
    hints = QGuiApplication.styleHints()
    hints.accessibility().contrastPreferenceChanged.emit(Qt.ContrastPreference.HighContrast)
    # More than once where an app of an earlier test still listens.
    assert outer.told > before[0]
    assert inner.told > before[1]
    hints.accessibility().contrastPreferenceChanged.disconnect(comfort.recolor)


def test_motion_is_asked_about_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [True, False]
    monkeypatch.setattr(comfort, "_motion", (-comfort.ASK_EVERY_S, False))
    monkeypatch.setattr("desktop.macos.reduce_motion", lambda: answers.pop(0))
    assert comfort.less_motion()
    assert comfort.less_motion()
    assert answers == [False]
    monkeypatch.setattr(comfort, "ASK_EVERY_S", 0.0)
    assert not comfort.less_motion()
