"""Sending, stopping, growing, input methods; nothing typed is lost."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.composer import Composer

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def composer(qtbot: QtBot) -> Composer:
    made = Composer()
    qtbot.addWidget(made)
    made.resize(500, 80)
    made.show()
    return made


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    got: list[str] = []
    composer.submitted.connect(got.append)
    return got


def test_enter_sends_and_empties(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.field, "hello")
    qtbot.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == ["hello"]
    assert composer.text() == ""
    qtbot.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == ["hello"]


def test_shift_enter_makes_a_line(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.field, "a")
    qtbot.keyClick(composer.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.field, "b")
    assert composer.text() == "a\nb"
    assert sent == []


def test_an_input_method_is_not_disturbed(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    composer.set_text("ab")
    QApplication.sendEvent(composer.field, QInputMethodEvent("かん", []))
    assert composer.field.composing
    qtbot.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == []
    assert composer.text() == "ab"
    commit = QInputMethodEvent("", [])
    commit.setCommitString("漢")
    QApplication.sendEvent(composer.field, commit)
    qtbot.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == ["ab漢"]


def test_while_generating_enter_keeps_the_text_and_escape_stops(
    composer: Composer, sent: list[str], qtbot: QtBot
) -> None:
    composer.set_generating(True)
    composer.set_text("next")
    qtbot.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == []
    assert composer.text() == "next"
    with qtbot.waitSignal(composer.stop_requested):
        qtbot.keyClick(composer.field, Qt.Key.Key_Escape)
    with qtbot.waitSignal(composer.stop_requested):
        composer.button.click()
    assert composer.button.accessibleName() == "Stop"
    composer.set_generating(False)
    composer.button.click()
    assert sent == ["next"]


def test_when_sending_is_not_possible_it_says_why(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    composer.set_enabled_to_send(False, "The model is loading.")
    composer.set_text("kept")
    qtbot.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == []
    assert composer.text() == "kept"
    assert composer.why.isVisible()
    assert composer.why.text() == "The model is loading."
    composer.set_enabled_to_send(True, "")
    assert not composer.why.isVisible()


def test_it_grows_to_eight_lines(composer: Composer) -> None:
    one = composer.field.height()
    composer.set_text("a\nb\nc")
    three = composer.field.height()
    assert three > one
    composer.set_text("\n".join("abcdefghijklmnop"))
    most = composer.field.height()
    composer.set_text("\n".join("abcdefghijklmnop" * 3))
    assert composer.field.height() == most
    composer.set_text("")
    assert composer.field.height() == one


def test_replaced_text_comes_back_with_undo(composer: Composer) -> None:
    composer.set_text("typed with care")
    composer.set_text("")
    composer.field.undo()
    assert composer.text() == "typed with care"


def test_a_huge_paste_is_taken_as_plain_text(composer: Composer) -> None:
    data = QMimeData()
    data.setText("word " * 100_000)
    data.setHtml("<b>bold</b>")
    composer.field.insertFromMimeData(data)
    assert composer.text() == "word " * 100_000


def test_changes_are_told(composer: Composer, qtbot: QtBot) -> None:
    got: list[str] = []
    composer.text_changed.connect(got.append)
    qtbot.keyClicks(composer.field, "ab")
    assert got == ["a", "ab"]
