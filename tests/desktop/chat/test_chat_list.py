"""Picking, renaming, deleting chats."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from desktop.chat.chat_list import ChatList, _is_right_to_left
from desktop.store import ChatRow

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
ROWS = [ChatRow(3, "Third", 3.0, 3.0), ChatRow(2, "שני", 2.0, 2.0), ChatRow(1, "", 1.0, 1.0)]


@pytest.fixture
def chats(qtbot: QtBot) -> ChatList:
    made = ChatList()
    qtbot.addWidget(made)
    made.resize(220, 300)
    made.set_chats(ROWS)
    made.show()
    return made


def test_rows_and_selection(chats: ChatList, qtbot: QtBot) -> None:
    opened: list[int] = []
    chats.opened.connect(opened.append)
    chats.select(2)
    assert chats.current_id() == 2
    assert opened == []
    qtbot.keyClick(chats.list, Qt.Key.Key_Down)
    assert opened == [1]
    assert chats.list.item(2).text() == "New chat"
    chats.set_chats(ROWS[1:])
    assert chats.current_id() == 1
    assert opened == [1]
    chats.select(77)
    assert chats.current_id() is None
    assert not chats.grab().isNull()


def test_rename_in_place(chats: ChatList, qtbot: QtBot) -> None:
    chats.select(3)
    chats.rename_current()
    editor = chats.list.findChild(QLineEdit)
    assert editor is not None
    editor.setText("  A new \n name ")
    with qtbot.waitSignal(chats.renamed) as told:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert told.args == [3, "A new name"]


def test_an_empty_name_changes_nothing(chats: ChatList, qtbot: QtBot) -> None:
    told: list[tuple[int, str]] = []
    chats.renamed.connect(lambda number, title: told.append((number, title)))
    chats.list.item(0).setText("   ")
    assert told == []
    assert chats.list.item(0).text() == "Third"


def test_delete_and_new_ask(chats: ChatList, qtbot: QtBot) -> None:
    chats.select(2)
    with qtbot.waitSignal(chats.delete_requested) as asked:
        qtbot.keyClick(chats.list, Qt.Key.Key_Delete)
    assert asked.args == [2]
    with qtbot.waitSignal(chats.new_requested):
        chats.new_button.click()


def test_menu(chats: ChatList, qtbot: QtBot) -> None:
    menu = chats.menu_for(chats.list.item(0))
    with qtbot.waitSignal(chats.delete_requested) as asked:
        menu.actions()[1].trigger()
    assert asked.args == [3]


@pytest.mark.parametrize(("text", "right"), [("abc", False), ("שלום abc", True), ("12 مرحبا", True), ("", False)])
def test_direction(text: str, right: bool) -> None:
    assert _is_right_to_left(text) is right
