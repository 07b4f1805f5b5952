"""Turns as a person takes them: branches, continuing, editing a reply, copying, quoting; by mouse, menu and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from desktop.chat.message_view import MessageView
from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.settings import Settings
from desktop.store import Store
from desktop.window import MainWindow
from tests.desktop import window_engine

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints", "This plugin does not support")
WAIT_MS = 15_000
REPLY = " one two four" * 4


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    settings, store = Settings(tmp_path / "settings.json"), Store(tmp_path / "chats.db")
    conversation = Conversation(store, settings, EngineClient(window_engine.main))
    made = MainWindow(conversation, settings, store)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    made.activateWindow()
    conversation.start()
    until(qtbot, lambda: conversation.state is EngineState.IDLE)
    yield made
    made.close()
    store.close()


def until(qtbot: QtBot, done: Callable[[], bool]) -> None:
    qtbot.waitUntil(done, timeout=WAIT_MS)


def idle(qtbot: QtBot, window: MainWindow) -> None:
    until(qtbot, lambda: window.conversation.state is EngineState.IDLE)


def say(qtbot: QtBot, window: MainWindow, text: str) -> None:
    window.composer.set_text(text)
    window.composer.submit()
    idle(qtbot, window)


def said(window: MainWindow) -> list[str]:
    return [view.row.text for view in window.transcript.views]


def last(window: MainWindow) -> MessageView:
    return window.transcript.views[-1]


def test_branches_are_counted_and_gone_through(window: MainWindow, qtbot: QtBot) -> None:
    say(qtbot, window, "first")
    assert last(window).branch.isHidden()
    last(window).regenerate_button.click()
    idle(qtbot, window)
    assert last(window).branch.count.text() == "2 / 2"
    second = last(window).row.id
    assert not last(window).branch.on.isEnabled()
    last(window).branch.back.click()
    assert last(window).row.id != second
    assert last(window).branch.count.text() == "1 / 2"
    say(qtbot, window, "and then")  # goes on from the first try
    assert len(said(window)) == 4
    window.transcript.views[1].branch.on.click()
    assert len(said(window)) == 2
    assert last(window).row.id == second
    last(window).branch.back.click()
    assert len(said(window)) == 4  # with what followed there
    asked = window.transcript.views[0]
    asked.edit()
    assert asked._editor is not None
    asked._editor.field.setPlainText("first, said better")
    asked._editor.run_button.click()
    idle(qtbot, window)
    assert said(window) == ["first, said better", REPLY]
    assert window.transcript.views[0].branch.count.text() == "2 / 2"
    window.transcript.views[0].branch.back.click()
    assert said(window)[0] == "first"


def test_branches_by_keyboard(window: MainWindow, qtbot: QtBot) -> None:
    say(qtbot, window, "first")
    first = last(window).row.id
    qtbot.keyClick(window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    until(qtbot, lambda: last(window).row.id != first)
    idle(qtbot, window)
    second = last(window).row.id
    qtbot.keyClick(window, Qt.Key.Key_BracketLeft, Qt.KeyboardModifier.ControlModifier)
    assert last(window).row.id == first
    qtbot.keyClick(window, Qt.Key.Key_BracketLeft, Qt.KeyboardModifier.ControlModifier)
    assert last(window).row.id == first  # there is none before it
    qtbot.keyClick(window, Qt.Key.Key_BracketRight, Qt.KeyboardModifier.ControlModifier)
    assert last(window).row.id == second
    back = last(window).branch.back
    back.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(back, Qt.Key.Key_Space)
    assert last(window).row.id == first
    focus = QApplication.focusWidget()
    assert focus is last(window).branch.on  # the keyboard stays where it was, as far as it can
    qtbot.keyClick(focus, Qt.Key.Key_Space)
    assert last(window).row.id == second


def test_a_switched_branch_stays_in_its_place(window: MainWindow, qtbot: QtBot) -> None:
    chat = window.conversation.chat
    assert chat is not None
    store, parent = window.store, None
    for k in range(12):
        parent = store.add_message(chat.id, parent, "user" if k % 2 == 0 else "assistant", f"{k} text\n\n" * 6).id
    path = store.messages(chat.id)
    other = store.add_message(chat.id, path[4].id, "assistant", "x\n\n" * 30)
    store.add_message(chat.id, other.id, "user", "and\n\n" * 30)
    window.conversation.show_branch(path[5].id)
    view = window.transcript.view_of(path[5].id)
    assert view is not None
    window.transcript.put(view, 120)
    QApplication.processEvents()
    view.branch.on.click()
    new = window.transcript.view_of(other.id)
    assert new is not None
    QApplication.processEvents()
    assert abs(window.transcript.top_of(new) - 120) <= 1
    assert not window.transcript.following


def test_a_stopped_reply_is_continued_beside_itself(window: MainWindow, qtbot: QtBot) -> None:
    window.composer.set_text("slow")
    window.composer.submit()
    until(qtbot, lambda: window.conversation.state is EngineState.GENERATING)
    assert last(window).continue_button.isHidden()
    window.menus.stop.trigger()
    idle(qtbot, window)
    stopped = last(window).row
    assert stopped.state == "stopped"
    assert last(window).continue_button.isVisible()
    last(window).continue_button.click()
    until(qtbot, lambda: last(window).row.id != stopped.id)
    idle(qtbot, window)
    row = last(window).row
    assert row.text == stopped.text + REPLY
    assert row.state == "done"
    assert last(window).view.typesetter.source == row.text
    assert window.store.message(stopped.id) == stopped
    assert last(window).branch.count.text() == "2 / 2"
    assert row.stats is not None
    assert stopped.stats is not None
    assert row.stats.tokens == stopped.stats.tokens + 12
    assert "".join(s.text for r in window.store.rounds(row.id) for s in r.spans) == row.text
    assert "Prompt lookup proposed it" in last(window)._tell(len(row.text) - len(" four") - 1)
    assert last(window).continue_button.isHidden()
    window.menus.tokens.trigger()
    assert window.tokens.window is not None
    window.tokens.window.grab()


def test_a_reply_is_edited_and_continued(window: MainWindow, qtbot: QtBot) -> None:
    say(qtbot, window, "first")
    reply = last(window).row
    qtbot.keyClick(window, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    view = last(window)
    assert view._editor is not None
    field = view._editor.field
    assert not view.view.isVisible()
    field.setPlainText("Mine")
    field.moveCursor(QTextCursor.MoveOperation.End)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.keyClicks(field, "two lines")
    assert window.conversation.state is EngineState.IDLE
    qtbot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert said(window) == ["first", "Mine\ntwo lines"]
    assert window.store.message(reply.id) == reply
    assert last(window).branch.count.text() == "2 / 2"
    assert "Edited by hand" in last(window).status.text()
    qtbot.keyClick(window, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    until(qtbot, lambda: last(window).row.text.endswith(REPLY))
    idle(qtbot, window)
    assert said(window)[1] == "Mine\ntwo lines" + REPLY
    assert last(window).branch.count.text() == "3 / 3"


def test_an_edit_is_left_as_it_was(window: MainWindow, qtbot: QtBot) -> None:
    say(qtbot, window, "first")
    last(window).edit_button.click()
    editor = last(window)._editor
    assert editor is not None
    qtbot.keyClick(editor.field, Qt.Key.Key_Escape)
    assert last(window).view.isVisible()
    assert last(window).branch.isHidden()


def test_branches_while_a_reply_is_written(window: MainWindow, qtbot: QtBot) -> None:
    say(qtbot, window, "first")
    first = last(window).row.id
    asked = window.transcript.views[0]
    asked.edit()
    assert asked._editor is not None
    asked._editor.field.setPlainText("slow")
    asked._editor.run_button.click()
    until(qtbot, lambda: window.conversation.state is EngineState.GENERATING)
    slow = last(window).row.id
    window.transcript.views[0].branch.back.click()
    assert last(window).row.id == first
    last(window).edit_button.click()
    editor = last(window)._editor
    assert editor is not None
    editor.field.setPlainText("Not now")
    editor.run_button.click()
    assert "still being written" in window.problems.text()
    assert window.composer.text() == "Not now"  # nothing that was typed is lost
    window.transcript.views[0].branch.on.click()
    assert last(window).row.id == slow
    window.menus.stop.trigger()
    idle(qtbot, window)
    row = window.store.message(slow)
    assert row is not None
    assert last(window).view.typesetter.source == row.text


def test_copying_from_the_menu(window: MainWindow, qtbot: QtBot) -> None:
    chat = window.conversation.chat
    assert chat is not None
    asked = window.store.add_message(chat.id, None, "user", "hello")
    window.store.add_message(chat.id, asked.id, "assistant", "A **bold** word")
    window.conversation.open_chat(chat.id)
    window.menus.copy_reply.trigger()
    assert QGuiApplication.clipboard().text() == "A bold word"
    window.menus.copy_markdown.trigger()
    assert QGuiApplication.clipboard().text() == "A **bold** word"


def test_quoting(window: MainWindow, qtbot: QtBot) -> None:
    chat = window.conversation.chat
    assert chat is not None
    asked = window.store.add_message(chat.id, None, "user", "hello")
    window.store.add_message(chat.id, asked.id, "assistant", "One line.\n\nAnother *marked* line.")
    window.conversation.open_chat(chat.id)
    last(window).quote_button.click()
    assert window.composer.text() == "> One line.\n>\n> Another *marked* line.\n\n"
    assert window.composer.field.hasFocus()
    qtbot.keyClicks(window.composer.field, "Why?")
    cursor = last(window).view.textCursor()
    cursor.setPosition(0)
    cursor.setPosition(3, QTextCursor.MoveMode.KeepAnchor)
    last(window).view.setTextCursor(cursor)
    window.menus.quote.trigger()
    assert window.composer.text() == "> One line.\n>\n> Another *marked* line.\n\nWhy?\n\n> One\n\n"
    window.composer.quote(" \n")
    assert window.composer.text().endswith("> One\n\n")
    window.composer.field.undo()
    assert window.composer.text().endswith("Why?")


def test_a_narrow_window_clips_no_button(window: MainWindow, qtbot: QtBot) -> None:
    say(qtbot, window, "first")
    view = last(window)
    footer = view._footer
    assert footer.more.isHidden()
    window.resize(900, 600)
    qtbot.waitUntil(footer.more.isVisible)
    shown = [button for button in footer.offered if button.isVisible()]
    assert view.regenerate_button in shown
    assert all(button.geometry().right() < footer.width() for button in [*shown, footer.more])
    assert view.tokens_button in footer.offered
    footer.more.click()
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    names = [action.text() for action in menu.actions()]
    assert view.tokens_button.accessibleName() in names
    assert view.regenerate_button.accessibleName() not in names
    menu.close()
