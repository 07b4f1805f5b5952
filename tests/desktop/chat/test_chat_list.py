"""Picking, renaming, folding, moving, deleting chats, and the list of very many."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtCore import QItemSelectionModel, QMimeData, QModelIndex, QPointF, Qt, QUrl
from PySide6.QtGui import QAction, QDropEvent
from PySide6.QtWidgets import QLineEdit, QMenu
from pytestqt.qtbot import QtBot

from desktop.chat.chat_list import ChatList
from desktop.chat.chat_rows import CHATS, Heading, arrange
from desktop.chat.row_painter import is_right_to_left
from desktop.shelf import Folder
from desktop.store import INCOGNITO, ChatRow

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
NOW = time.mktime((2026, 3, 18, 15, 0, 0, 0, 0, -1))
DAY = 86400.0
FOLDERS = [Folder(7, "Work"), Folder(8, "Zoo")]


def row(number: int, title: str, age: float = 0.0, folder: int | None = None, pinned: bool = False) -> ChatRow:
    return ChatRow(number, title, 1.0, NOW - age * DAY, folder, pinned)


ROWS = [
    row(INCOGNITO + 1, "hush"),
    row(6, "Third"),
    row(5, "שני", 0.1),
    row(4, "", 1.0),
    row(3, "Old", 20, pinned=True),
    row(2, "Filed", 40, 7),
    row(1, "Ancient", 800),
]


def shown(chats: ChatList) -> list[str]:
    model = chats.model
    return [str(model.data(model.index(k))) for k in range(model.rowCount())]


@pytest.fixture
def chats(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> ChatList:
    monkeypatch.setattr("desktop.chat.chat_rows.time.time", lambda: NOW)
    made = ChatList()
    qtbot.addWidget(made)
    made.resize(220, 500)
    made.set_chats(ROWS, FOLDERS)
    made.show()
    qtbot.waitExposed(made)
    return made


def at(chats: ChatList, number: int) -> QModelIndex:
    index = chats.model.index_of(number)
    assert index.isValid()
    return index


def click(
    qtbot: QtBot, chats: ChatList, index: QModelIndex, how: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    chats.list.scrollTo(index)
    spot = chats.list.visualRect(index).center()
    qtbot.mouseClick(chats.list.viewport(), Qt.MouseButton.LeftButton, how, spot)


def test_sections_in_order() -> None:
    rows = arrange(ROWS, FOLDERS, {"yesterday"}, NOW)
    said = [(r.title, r.count, r.folded) if isinstance(r, Heading) else r.id for r in rows]
    assert said == [
        ("Incognito", 1, False),
        INCOGNITO + 1,
        ("Pinned", 1, False),
        3,
        ("Work", 1, False),
        2,
        ("Zoo", 0, False),
        ("Today", 2, False),
        6,
        5,
        ("Yesterday", 1, True),
        ("2024", 1, False),
        1,
    ]


@pytest.mark.parametrize(
    ("age", "title"),
    [(0.6, "Today"), (0.7, "Yesterday"), (1.7, "Last 7 Days"), (20, "Last 30 Days"), (60, "January"), (90, "2025")],
)
def test_ages(age: float, title: str) -> None:
    first = arrange([row(1, "x", age)], (), (), NOW)[0]
    assert first.title == title


def test_a_time_that_no_calendar_has() -> None:
    assert arrange([ChatRow(1, "x", 0.0, -1e300)], (), (), NOW)[0].title == "Earlier"


def test_rows_and_selection(chats: ChatList, qtbot: QtBot) -> None:
    opened: list[int] = []
    chats.opened.connect(opened.append)
    chats.select(6)
    assert (chats.open_id(), chats.picked(), opened) == (6, [6], [])
    qtbot.keyClick(chats.list, Qt.Key.Key_Down)
    assert opened == [5]
    chats.select(5)
    chats.set_chats(ROWS[2:], FOLDERS)
    assert chats.picked() == [5]
    assert opened == [5]
    chats.select(77)
    assert chats.open_id() is None
    assert chats.picked() == []
    assert not chats.grab().isNull()


def test_a_click_goes_on_with_a_chat(chats: ChatList, qtbot: QtBot) -> None:
    opened: list[int] = []
    chosen: list[int] = []
    chats.opened.connect(opened.append)
    chats.opened.connect(chats.select)
    chats.chosen.connect(chosen.append)
    click(qtbot, chats, at(chats, 2))
    assert (opened, chosen) == ([2], [2])
    # A right click is about the row, and opens nothing.
    spot = chats.list.visualRect(at(chats, 6)).center()
    qtbot.mouseClick(chats.list.viewport(), Qt.MouseButton.RightButton, pos=spot)
    assert (opened, chats.picked()) == ([2], [2])
    click(qtbot, chats, at(chats, 6), Qt.KeyboardModifier.ControlModifier)
    assert (opened, chosen, chats.picked()) == ([2], [2], [2, 6])
    assert [r.id for r in chats.targets()] == [2, 6]
    qtbot.keyClick(chats.list, Qt.Key.Key_Return)
    assert chosen == [2, 6]


def test_sections_fold_by_mouse_and_keys_and_remember(chats: ChatList, qtbot: QtBot) -> None:
    told: list[tuple[str, ...]] = []
    chats.folds_changed.connect(told.append)
    chats.select(6)
    today = chats.model.heading("today")
    click(qtbot, chats, today)
    assert told == [("today",)]
    assert "Third" not in shown(chats)
    assert chats.open_id() == 6
    assert chats.model.data(chats.model.heading("today"), Qt.ItemDataRole.AccessibleTextRole) == (
        "Today, 2 chats, folded"
    )
    chats.list.setCurrentIndex(chats.model.heading("today"))
    qtbot.keyClick(chats.list, Qt.Key.Key_Right)
    assert told[-1] == ()
    assert "Third" in shown(chats)
    assert chats.list.currentIndex() == chats.model.heading("today")
    qtbot.keyClick(chats.list, Qt.Key.Key_Left)
    qtbot.keyClick(chats.list, Qt.Key.Key_Left)
    assert told[-1] == ("today",)
    chats.set_folded(("pinned",))
    assert "Old" not in shown(chats)
    chats.reveal(3)
    assert "Old" in shown(chats)


def test_rename_in_place(chats: ChatList, qtbot: QtBot) -> None:
    chats.select(6)
    chats.rename_current()
    editor = chats.list.findChild(QLineEdit)
    assert editor is not None
    assert editor.text() == "Third"
    chats.set_chats(ROWS[:2], FOLDERS)  # while it is typed, the list stays
    assert chats.list.editing
    editor.setText("  A new \n name ")
    with qtbot.waitSignal(chats.renamed) as told:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert told.args == [6, "A new name"]
    qtbot.waitUntil(lambda: "Filed" not in shown(chats))


def test_an_untitled_chat_is_renamed_from_nothing(chats: ChatList, qtbot: QtBot) -> None:
    told: list[tuple[int, str]] = []
    chats.renamed.connect(lambda number, title: told.append((number, title)))
    index = at(chats, 4)
    spot = chats.list.visualRect(index).center()
    qtbot.mouseDClick(chats.list.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    editor = chats.list.findChild(QLineEdit)
    assert editor is not None
    assert editor.text() == ""
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert not chats.list.editing
    assert not chats.model.setData(index, "   ")
    assert told == []


def test_a_folder_is_renamed_and_removed(chats: ChatList, qtbot: QtBot) -> None:
    chats.list.setFocus()
    chats.list.setCurrentIndex(chats.model.heading("folder 7"))
    chats.rename_current()
    editor = chats.list.findChild(QLineEdit)
    assert editor is not None
    editor.setText("Job")
    with qtbot.waitSignal(chats.folder_renamed) as told:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert told.args == [7, "Job"]
    with qtbot.waitSignal(chats.folder_removed) as removed:
        qtbot.keyClick(chats.list, Qt.Key.Key_Delete)
    assert removed.args == [7]
    chats.list.setCurrentIndex(chats.model.heading("today"))
    chats.rename_current()
    assert not chats.list.editing


def test_keys_ask_for_a_deletion_but_a_bare_backspace_does_not(chats: ChatList, qtbot: QtBot) -> None:
    asked: list[list[int]] = []
    chats.delete_requested.connect(asked.append)
    chats.select(5)
    qtbot.keyClick(chats.list, Qt.Key.Key_Backspace)
    assert asked == []
    qtbot.keyClick(chats.list, Qt.Key.Key_Delete)
    qtbot.keyClick(chats.list, Qt.Key.Key_Backspace, Qt.KeyboardModifier.ControlModifier)
    assert asked == [[5], [5]]
    with qtbot.waitSignal(chats.new_requested):
        chats.new_button.click()
    with qtbot.waitSignal(chats.undo_requested):
        qtbot.keyClick(chats.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)


def names(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def trigger(menu: QMenu, *path: str) -> None:
    """Trigger the action of that name, through submenus."""
    action = next(a for a in menu.actions() if a.text() == path[0])
    assert action.menuRole() == QAction.MenuRole.NoRole
    if len(path) == 1:
        action.trigger()
    else:
        inner = action.menu()
        assert isinstance(inner, QMenu)
        trigger(inner, *path[1:])


def test_menu_of_a_chat(chats: ChatList, qtbot: QtBot) -> None:
    menu = chats.menu_for(at(chats, 2))
    assert menu is not None
    assert names(menu) == ["Rename", "Pin", "Move to Folder", "Duplicate", "Export…", "Delete"]
    for path, signal, args in (
        (("Pin",), chats.pin_requested, [[2], True]),
        (("Move to Folder", "Zoo"), chats.move_requested, [[2], 8]),
        (("Move to Folder", "No Folder"), chats.move_requested, [[2], None]),
        (("Move to Folder", "New Folder"), chats.folder_requested, [[2]]),
        (("Duplicate",), chats.duplicate_requested, [[2]]),
        (("Export…",), chats.export_requested, [[2]]),
        (("Delete",), chats.delete_requested, [[2]]),
    ):
        with qtbot.waitSignal(signal) as told:
            trigger(menu, *path)
        assert told.args == args
    trigger(menu, "Rename")
    assert chats.list.editing
    unpin = chats.menu_for(at(chats, 3))
    assert unpin is not None
    assert "Unpin" in names(unpin)
    hush = chats.menu_for(at(chats, INCOGNITO + 1))
    assert hush is not None
    assert names(hush) == ["Rename", "Duplicate", "Export…", "Delete"]


def test_menu_of_several(chats: ChatList, qtbot: QtBot) -> None:
    chats.select(6)
    chats.list.selectionModel().select(at(chats, 5), QItemSelectionModel.SelectionFlag.Select)
    menu = chats.menu_for(at(chats, 5))
    assert menu is not None
    assert names(menu) == ["Pin", "Move to Folder", "Duplicate", "Export 2 Chats…", "Delete 2 Chats"]
    with qtbot.waitSignal(chats.delete_requested) as told:
        trigger(menu, "Delete 2 Chats")
    assert told.args == [[6, 5]]
    other = chats.menu_for(at(chats, 2))  # not one of them: about it alone
    assert other is not None
    assert "Delete" in names(other)


def test_menu_of_a_section(chats: ChatList, qtbot: QtBot) -> None:
    menu = chats.menu_for(chats.model.heading("folder 8"))
    assert menu is not None
    assert names(menu) == ["Fold", "Rename Folder", "Delete Folder, Keep Its Chats"]
    with qtbot.waitSignal(chats.folder_removed) as told:
        trigger(menu, "Delete Folder, Keep Its Chats")
    assert told.args == [8]
    trigger(menu, "Rename Folder")
    assert chats.list.editing
    plain = chats.menu_for(chats.model.heading("today"))
    assert plain is not None
    assert names(plain) == ["Fold"]


def test_dragging_into_a_folder(chats: ChatList, qtbot: QtBot) -> None:
    model = chats.model
    data = model.mimeData([at(chats, 6), at(chats, 5)])
    assert bytes(data.data(CHATS).data()) == b"6 5"
    move = Qt.DropAction.MoveAction
    with qtbot.waitSignal(chats.move_requested) as told:
        model.dropMimeData(data, move, -1, -1, model.heading("folder 8"))
    assert told.args == [[6, 5], 8]
    with qtbot.waitSignal(chats.move_requested) as out:
        model.dropMimeData(data, move, -1, -1, model.heading("yesterday"))
    assert out.args == [[6, 5], None]
    assert not model.canDropMimeData(data, move, -1, -1, model.heading("pinned"))
    assert not model.canDropMimeData(QMimeData(), move, -1, -1, model.heading("folder 8"))


def test_files_are_dropped_on_the_list(chats: ChatList, qtbot: QtBot, tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "a.json")), QUrl("https://example.org/b.json")])
    none = Qt.KeyboardModifier.NoModifier
    event = QDropEvent(QPointF(20, 60), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, none)
    with qtbot.waitSignal(chats.files_dropped) as told:
        chats.list.dropEvent(event)
    assert told.args == [[tmp_path / "a.json"]]
    assert event.isAccepted()


@pytest.mark.parametrize(("text", "right"), [("abc", False), ("שלום abc", True), ("12 مرحبا", True), ("", False)])
def test_direction(text: str, right: bool) -> None:
    assert is_right_to_left(text) is right


def test_ten_thousand_chats(qtbot: QtBot) -> None:
    made = ChatList()
    qtbot.addWidget(made)
    made.resize(220, 600)
    made.show()
    many = [ChatRow(k, f"Chat number {k}", 1.0, 1e9 + k * 5000, k % 5 or None) for k in range(10_000, 0, -1)]
    folders = [Folder(k, f"Folder {k}") for k in range(1, 5)]
    began = time.perf_counter()
    made.set_chats(many, folders)
    made.select(5000)
    made.grab()
    assert time.perf_counter() - began < 1.0  # about a tenth of that with the machine to itself
    widgets = len(made.findChildren(QLineEdit)) + len(made.list.viewport().children())
    assert widgets < 20  # painted, not built
    began = time.perf_counter()
    made.set_chats(list(many), folders)  # as after each message
    assert time.perf_counter() - began < 0.5
