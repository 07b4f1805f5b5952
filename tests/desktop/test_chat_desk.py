"""Every command about whole chats, given as a person gives it: menu bar, keys, list, dialogs, dropped files."""

from __future__ import annotations

import json
import sqlite3
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QLineEdit, QMessageBox
from pytestqt.qtbot import QtBot

from desktop.chat_actions import ChatActions
from desktop.conversation import Conversation
from desktop.dialogs.deleted import DeletedDialog
from desktop.dialogs.transfer import ExportDialog
from desktop.engine_client import EngineClient
from desktop.settings import COLLAPSED, LAST_CHAT, Settings
from desktop.store import Store
from desktop.transfer.formats import MARKDOWN
from desktop.window import MainWindow
from tests.desktop import window_engine
from tests.desktop.test_search import fill
from tests.desktop.transfer.samples import branched, chatgpt

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
WAIT_MS = 15_000


class Desk:
    """A window over a store, without an engine: nothing here needs one."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(folder / "settings.json")
        self.store = Store(folder / "chats.db")
        self.talk = Conversation(self.store, self.settings, EngineClient(window_engine.main))
        self.window = MainWindow(self.talk, self.settings, self.store)
        self.list, self.menus = self.window.chat_list, self.window.menus
        self.actions: ChatActions = self.window.desk.actions
        self.shelf = self.actions.shelf

    def chat(self, title: str, *texts: str) -> int:
        """A chat with these messages."""
        number = self.store.new_chat(title).id
        parent = None
        for k, text in enumerate(texts):
            parent = self.store.add_message(number, parent, ("user", "assistant")[k % 2], text).id
        return number

    def open(self, number: int) -> None:
        """Show the chats, and open one."""
        self.talk.refresh_chats()
        self.talk.open_chat(number)

    def titles(self) -> list[str]:
        return [chat.title for chat in self.store.chats()]

    def shown(self) -> list[str]:
        model = self.list.model
        return [str(model.data(model.index(k))) for k in range(model.rowCount())]


@pytest.fixture
def desk(qtbot: QtBot, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    qtbot.addWidget(made.window)
    made.window.show()
    qtbot.waitExposed(made.window)
    made.window.activateWindow()
    qtbot.waitUntil(made.window.isActiveWindow)
    yield made
    made.window.close()
    made.store.close()


def editor(desk: Desk) -> QLineEdit:
    found = [line for line in desk.list.list.findChildren(QLineEdit) if line.isVisible()]
    assert len(found) == 1
    return found[0]


def type_name(desk: Desk, qtbot: QtBot, name: str) -> None:
    """Type over what stands in the open editor, and press Enter."""
    line = editor(desk)
    line.setText(name)
    qtbot.keyClick(line, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not desk.list.list.editing)


# ------------------------------------------------------------------------------------- chats and folders


def test_new_and_incognito(desk: Desk, qtbot: QtBot) -> None:
    number = desk.chat("plain", "hello")
    desk.open(number)
    assert not desk.window.incognito.isVisible()
    desk.menus.new_incognito.trigger()
    chat = desk.talk.chat
    assert chat is not None
    assert chat.incognito
    assert desk.window.incognito.isVisible()
    assert desk.window.windowTitle() == "Outrider (incognito)"
    assert desk.shown()[:2] == ["Incognito", "New chat"]
    assert not desk.menus.pin_chat.isEnabled()
    assert not desk.menus.move_menu.isEnabled()
    assert desk.settings.get(LAST_CHAT) == number
    desk.list.new_button.click()
    assert desk.talk.chat is not None
    assert not desk.talk.chat.incognito
    assert not desk.window.incognito.isVisible()
    assert QApplication.focusWidget() is not None
    assert desk.window.composer.isAncestorOf(QApplication.focusWidget())


def test_a_deleted_incognito_chat_is_gone_once_its_undo_is(desk: Desk, qtbot: QtBot) -> None:
    desk.open(desk.chat("plain", "hello"))
    desk.menus.new_incognito.trigger()
    assert desk.talk.chat is not None
    number = desk.talk.chat.id
    desk.store.add_message(number, None, "user", "psst")
    desk.menus.delete_chat.trigger()
    assert desk.shelf.trashed() == [number]
    assert desk.shelf.trash_list() == []  # not shown among those on the disk
    desk.window.notice.button.click()
    assert desk.store.messages(number)[0].text == "psst"
    desk.talk.open_chat(number)
    desk.menus.delete_chat.trigger()
    desk.window.notice.dismiss()
    assert desk.shelf.trashed() == []


def test_rename_by_f2(desk: Desk, qtbot: QtBot) -> None:
    desk.open(desk.chat("old", "hello"))
    qtbot.keyClick(desk.window, Qt.Key.Key_F2)
    type_name(desk, qtbot, "new")
    assert desk.titles() == ["new"]
    assert desk.window.windowTitle() == "new"
    assert "new" in desk.shown()


def test_rename_finds_a_chat_in_a_folded_section(desk: Desk, qtbot: QtBot) -> None:
    desk.open(desk.chat("old", "hello"))
    desk.list.fold("today", True)
    assert desk.settings.get(COLLAPSED) == ("today",)
    assert desk.shown() == ["Today"]
    desk.menus.rename_chat.trigger()
    assert editor(desk).text() == "old"
    assert desk.settings.get(COLLAPSED) == ()


def test_pin_and_unpin(desk: Desk, qtbot: QtBot) -> None:
    a, b = desk.chat("a", "x"), desk.chat("b", "x")
    desk.open(a)
    desk.menus.pin_chat.trigger()
    assert desk.shown() == ["Pinned", "a", "Today", "b"]
    assert desk.menus.pin_chat.text() == "Unpin"
    desk.menus.pin_chat.trigger()
    assert desk.shown() == ["Today", "b", "a"]
    assert desk.menus.pin_chat.text() == "Pin"
    assert [chat.id for chat in desk.store.chats()] == [b, a]


def test_folders(desk: Desk, qtbot: QtBot) -> None:
    a, b = desk.chat("a", "x"), desk.chat("b", "x")
    desk.open(a)
    desk.menus.move_menu.aboutToShow.emit()
    actions = {action.text(): action for action in desk.menus.move_menu.actions()}
    assert actions["No Folder"].isChecked()
    actions["New Folder"].trigger()
    type_name(desk, qtbot, "Plans")  # at once, without a dialog
    assert desk.shown() == ["Plans", "a", "Today", "b"]
    desk.open(b)
    desk.menus.move_menu.aboutToShow.emit()
    next(action for action in desk.menus.move_menu.actions() if action.text() == "Plans").trigger()
    assert desk.shown() == ["Plans", "b", "a"]
    # A folder cannot take the name of another one.
    desk.menus.new_folder.trigger()
    type_name(desk, qtbot, "Plans")
    assert "already" in desk.window.problems.text()
    assert [folder.name for folder in desk.shelf.folders()] == ["New Folder", "Plans"]
    # Its chats stay when it goes, and are in it again when that is taken back.
    desk.list.folder_removed.emit(desk.shelf.folders()[1].id)
    assert desk.window.notice.text() == "Folder “Plans” deleted. Its 2 chats are kept."
    assert desk.shown() == ["New Folder", "Today", "b", "a"]
    desk.window.notice.button.click()
    assert desk.shown() == ["New Folder", "Plans", "b", "a"]


def test_duplicate(desk: Desk, qtbot: QtBot) -> None:
    number = branched(desk.store, "Two ways")
    desk.open(number)
    desk.menus.duplicate_chat.trigger()
    assert desk.titles() == ["Two ways (copy)", "Two ways"]
    assert desk.talk.chat is not None
    assert desk.talk.chat.title == "Two ways (copy)"
    assert [m.text for m in desk.store.messages(desk.talk.chat.id)] == [m.text for m in desk.store.messages(number)]


# ------------------------------------------------------------------------------------------------- trash


def test_delete_several_and_undo(desk: Desk, qtbot: QtBot) -> None:
    a, b, c = (desk.chat(name, "x") for name in "abc")
    desk.open(b)
    model, picks = desk.list.model, desk.list.list.selectionModel()
    picks.select(model.index_of(a), picks.SelectionFlag.Select)
    assert desk.menus.delete_chat.text() == "Delete 2 Chats"
    desk.list.list.setFocus()
    qtbot.keyClick(desk.list.list, Qt.Key.Key_Delete)
    assert desk.window.notice.text() == "2 chats deleted."
    assert desk.titles() == ["c"]
    assert desk.talk.chat is not None
    assert desk.talk.chat.id == c
    qtbot.keyClick(desk.list.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert sorted(desk.titles()) == ["a", "b", "c"]
    assert desk.talk.chat.id == b
    assert not desk.window.notice.isVisible()


def test_the_chat_after_the_deleted_one_is_opened(desk: Desk, qtbot: QtBot) -> None:
    a, b, c = (desk.chat(name, "x") for name in "abc")
    desk.open(b)
    desk.menus.delete_chat.trigger()
    assert desk.talk.chat is not None
    assert desk.talk.chat.id == a
    desk.open(a)
    desk.menus.delete_chat.trigger()
    assert desk.talk.chat.id == c


def test_a_notice_goes_by_itself_but_not_under_the_hand(desk: Desk, qtbot: QtBot) -> None:
    notice = desk.window.notice
    notice._timer.setInterval(30)
    gone: list[str] = []
    notice.tell("one", "Undo", lambda: gone.append("undone"), lambda: gone.append("one"))
    qtbot.waitUntil(lambda: not notice.isVisible())
    assert gone == ["one"]
    assert not notice.can_act
    notice.tell("two", "Undo", lambda: gone.append("undone"), lambda: gone.append("two"))
    notice.button.setFocus()
    qtbot.wait(120)
    assert notice.isVisible()
    qtbot.keyClick(notice.button, Qt.Key.Key_Escape)
    assert not notice.isVisible()
    assert gone == ["one", "two"]


def test_recently_deleted(desk: Desk, qtbot: QtBot) -> None:
    a, b, c = (desk.chat(name, "x") for name in "abc")
    desk.open(c)
    for number in (a, b):
        desk.actions.delete([number])
    desk.menus.deleted_chats.trigger()
    dialog = desk.window.findChild(DeletedDialog)
    assert dialog is not None
    titles = [dialog.list.topLevelItem(k).text(0) for k in range(dialog.list.topLevelItemCount())]  # type: ignore[union-attr]
    assert titles == ["b", "a"]
    assert dialog.list.topLevelItem(0).text(3) == "30"  # type: ignore[union-attr]
    assert dialog.picked() == [b]
    dialog.restore_button.click()
    assert sorted(desk.titles()) == ["b", "c"]
    assert desk.talk.chat is not None
    assert desk.talk.chat.id == b
    assert dialog.picked() == [a]
    dialog.remove_button.click()
    box = dialog.findChild(QMessageBox)
    assert box is not None
    assert "“a”" in box.text()
    next(button for button in box.buttons() if button.text() == "Delete Forever").click()
    assert desk.shelf.trashed() == []
    assert desk.shelf.owed() == [a]
    assert not dialog.restore_button.isEnabled()
    assert "no deleted chats" in dialog._hint.text()
    assert not dialog.grab().isNull()
    dialog.close()


# -------------------------------------------------------------------------------------------- transfer


def save_as(dialog: QFileDialog | None, path: Path, ending: str) -> None:
    """What a person does in a dialog: picks the format, types a name, presses Save."""
    assert dialog is not None
    words = next(words for words in dialog.nameFilters() if words.endswith(f"(*.{ending})"))
    dialog.selectNameFilter(words)
    dialog.setDirectory(str(path.parent))
    dialog.selectFile(path.name)
    dialog.done(QDialog.DialogCode.Accepted)


@pytest.mark.parametrize(("ending", "start"), [("md", "# Two ways"), ("html", "<!DOCTYPE"), ("json", "{")])
def test_export_one(desk: Desk, qtbot: QtBot, tmp_path: Path, ending: str, start: str) -> None:
    desk.open(branched(desk.store, "Two ways"))
    desk.menus.export_chat.trigger()
    dialog = desk.window.findChild(ExportDialog)
    assert dialog is not None
    assert Path(dialog.selectedFiles()[0]).stem == "Two ways"
    save_as(dialog, tmp_path / "out", ending)
    path = tmp_path / f"out.{ending}"
    qtbot.waitUntil(path.exists, timeout=WAIT_MS)
    assert path.read_text("utf-8").startswith(start)
    qtbot.waitUntil(lambda: desk.window.notice.text() == f"Chat exported to {path.name}.")


def test_no_file_is_replaced_unasked(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    desk.open(desk.chat("a", "x"))
    (tmp_path / "out.html").write_text("mine")
    chosen: list[Path] = []
    dialog = ExportDialog(desk.window, "a")
    dialog.chosen.connect(lambda _, path: chosen.append(path))
    save_as(dialog, tmp_path / "out.md", "html")
    assert chosen == [tmp_path / "out 2.html"]


def test_export_all_and_import_again(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    branched(desk.store, "Two ways")
    desk.open(desk.chat("b", "hello", "there"))
    desk.menus.new_incognito.trigger()
    assert desk.talk.chat is not None
    desk.store.add_message(desk.talk.chat.id, None, "user", "a secret")
    save_as(desk.actions.export_all(), tmp_path / "all.json", "json")
    qtbot.waitUntil(lambda: desk.window.notice.text() == "2 chats exported to all.json.", timeout=WAIT_MS)
    data = json.loads((tmp_path / "all.json").read_text("utf-8"))
    assert sorted(chat["title"] for chat in data["chats"]) == ["Two ways", "b"]
    assert "a secret" not in (tmp_path / "all.json").read_text("utf-8")
    save_as(desk.actions.export_all(), tmp_path / "all.zip", "zip")
    qtbot.waitUntil(lambda: desk.window.notice.text() == "2 chats exported to all.zip.", timeout=WAIT_MS)
    assert sorted(zipfile.ZipFile(tmp_path / "all.zip").namelist()) == ["Two ways.md", "b.md"]
    # One of them is deleted for good; the import brings it back and knows the other.
    number = next(chat.id for chat in desk.store.chats() if chat.title == "b")
    desk.actions.delete([number])
    desk.actions.remove([number])
    desk.menus.import_chats.trigger()
    dialog = next(d for d in desk.window.findChildren(QFileDialog) if not isinstance(d, ExportDialog))
    dialog.filesSelected.emit([str(tmp_path / "all.json")])
    dialog.close()
    qtbot.waitUntil(lambda: desk.window.notice.text() == "1 chat imported, 1 was there already.", timeout=WAIT_MS)
    assert desk.talk.chat.title == "b"
    assert [m.text for m in desk.store.messages(desk.talk.chat.id)] == ["hello", "there"]
    desk.window.notice.button.click()  # what was imported can be taken back
    assert "b" not in desk.titles()


def test_files_dropped_on_the_list_are_imported(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    desk.open(desk.chat("a", "x"))
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(chatgpt()), "utf-8")
    desk.list.list.files_dropped.emit([path])
    qtbot.waitUntil(lambda: desk.window.notice.text() == "1 chat imported.", timeout=WAIT_MS)
    assert "Old chat" in desk.titles()


@pytest.mark.parametrize("data", ["{", "no json at all", '{"format": "outrider chats"}', "[]"])
def test_a_broken_file_is_one_sentence(desk: Desk, qtbot: QtBot, tmp_path: Path, data: str) -> None:
    desk.open(desk.chat("a", "x"))
    path = tmp_path / "broken.json"
    path.write_text(data, "utf-8")
    desk.actions.import_files([path])
    qtbot.waitUntil(lambda: bool(desk.window.problems.text()), timeout=WAIT_MS)
    assert "broken.json" in desk.window.problems.text()
    assert desk.window.notice.text() == ""
    assert desk.titles() == ["a"]


def test_a_place_that_cannot_be_written_is_told(desk: Desk, qtbot: QtBot, tmp_path: Path) -> None:
    desk.open(desk.chat("a", "x"))
    number = desk.store.chats()[0].id
    desk.actions.write([number], MARKDOWN, tmp_path / "none" / "out.md", False)
    qtbot.waitUntil(lambda: "cannot be written" in desk.window.problems.text(), timeout=WAIT_MS)


# ---------------------------------------------------------------------------------------------- search


def search(desk: Desk, qtbot: QtBot, text: str) -> None:
    """Type into the field, as fast as a person, and wait for what is found."""
    desk.menus.find.trigger()
    assert desk.list.search.hasFocus()
    qtbot.keyClicks(desk.list.search, text)
    qtbot.waitUntil(lambda: desk.list.results.query == text, timeout=WAIT_MS)


def test_search_opens_the_place_and_goes_through_them(desk: Desk, qtbot: QtBot) -> None:
    filler = ["Filler of no interest. " * 30, "Nothing here either. " * 30] * 25
    found = desk.chat("Ships", "Where is the **harbour**?", "The harbour is near a Harbour light.", *filler)
    desk.open(desk.chat("Other", "hello"))
    search(desk, qtbot, "harb")
    results = desk.list.results
    assert desk.list.pages.currentWidget() is results
    assert [hit.chat for hit in results.model.hits] == [found, found]
    assert results.status.text() == "2 places"
    assert not results.grab().isNull()
    qtbot.keyClick(desk.list.search, Qt.Key.Key_Return)
    assert desk.talk.chat is not None
    assert desk.talk.chat.id == found
    bar = desk.window.hit_bar
    assert bar.isVisible()
    assert bar.text() == "“harb”: 2 of 3 in this chat"
    view = desk.window.transcript.view_of(results.model.hits[0].message or 0)
    assert view is not None
    assert len(view.view.typesetter.hits) == 2
    assert not view.visibleRegion().isEmpty()  # scrolled to, over fifty long messages
    assert not desk.window.transcript.following
    assert results.list.hasFocus()  # the arrows go on from here
    desk.menus.find_next.trigger()
    assert bar.text() == "“harb”: 3 of 3 in this chat"
    desk.menus.find_next.trigger()
    assert bar.text() == "“harb”: 1 of 3 in this chat"
    desk.menus.find_previous.trigger()
    assert bar.text() == "“harb”: 3 of 3 in this chat"
    assert not desk.window.grab().isNull()
    qtbot.keyClick(results.list, Qt.Key.Key_Down)
    assert bar.text() == "“harb”: 1 of 3 in this chat"
    qtbot.keyClick(results.list, Qt.Key.Key_Escape)
    assert desk.list.pages.currentWidget() is desk.list.list
    assert desk.list.search.text() == ""
    assert desk.list.list.hasFocus()
    assert bar.isVisible()  # the marks stay until they are closed, or another chat is shown
    bar.close_button.click()
    assert not bar.isVisible()
    assert view.view.typesetter.hits == []
    assert not desk.menus.find_next.isEnabled()


def test_a_hit_on_another_branch_is_shown_there(desk: Desk, qtbot: QtBot) -> None:
    number = branched(desk.store)
    desk.open(number)
    assert "Good day" not in [m.text for m in desk.store.messages(number)]
    search(desk, qtbot, "good day")
    hit = desk.list.results.list.visualRect(desk.list.results.model.index(0)).center()
    qtbot.mouseClick(desk.list.results.list.viewport(), Qt.MouseButton.LeftButton, pos=hit)
    assert desk.store.messages(number)[-1].text == "Good day"
    assert desk.window.hit_bar.text() == "“good day”: 1 of 2 in this chat"


def test_a_title_that_is_found_opens_the_chat(desk: Desk, qtbot: QtBot) -> None:
    number = desk.chat("Quagga facts", "hello")
    desk.open(desk.chat("Other", "x"))
    search(desk, qtbot, "quagga")
    qtbot.keyClick(desk.list.search, Qt.Key.Key_Down)
    assert desk.talk.chat is not None
    assert desk.talk.chat.id == number
    assert desk.window.hit_bar.text() == "“quagga”: no place in this chat"


def test_nothing_found_and_escape_from_the_field(desk: Desk, qtbot: QtBot) -> None:
    desk.open(desk.chat("Other", "x"))
    search(desk, qtbot, "zzz")
    assert desk.list.results.status.text() == "Nothing was found for “zzz”."
    qtbot.keyClick(desk.list.search, Qt.Key.Key_Return)
    assert desk.list.search.hasFocus()
    qtbot.keyClick(desk.list.search, Qt.Key.Key_Escape)
    assert desk.list.list.hasFocus()
    assert desk.list.pages.currentWidget() is desk.list.list


def test_only_the_last_of_what_was_typed_is_shown(desk: Desk, qtbot: QtBot) -> None:
    asked: list[str] = []
    find = desk.list.results.finder

    def slow(text: str):  # type: ignore[no-untyped-def]
        asked.append(text)
        time.sleep(0.2)
        return find(text)

    desk.list.set_finder(slow)
    desk.open(desk.chat("alpha beta", "x"))
    desk.list.search.setText("al")
    qtbot.waitUntil(lambda: asked == ["al"], timeout=WAIT_MS)
    for text in ("alp", "alpha", "alpha be"):
        desk.list.search.setText(text)
    qtbot.keyClick(desk.list.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: desk.list.results.query == "alpha be", timeout=WAIT_MS)
    assert asked == ["al", "alpha be"]
    assert desk.list.results.list.hasFocus()  # Enter was pressed before the hits were there


def test_a_search_that_fails_is_told(desk: Desk, qtbot: QtBot) -> None:
    def broken(text: str):  # type: ignore[no-untyped-def]
        raise sqlite3.OperationalError("disk I/O error")

    desk.list.set_finder(broken)
    desk.list.search.setText("x")
    qtbot.waitUntil(lambda: "disk I/O error" in desk.list.results.status.text(), timeout=WAIT_MS)


def test_marks_follow_what_is_written(desk: Desk, qtbot: QtBot) -> None:
    number = desk.chat("a", "a boat")
    desk.open(number)
    bar = desk.window.hit_bar
    bar.search("boat")
    assert bar.text() == "“boat”: 1 place in this chat"
    row = desk.store.add_message(number, desk.store.messages(number)[-1].id, "assistant", "Boat after boat.")
    desk.talk.message_added.emit(row)
    assert bar.text() == "“boat”: 3 places in this chat"
    bar.next()
    assert bar.text() == "“boat”: 1 of 3 in this chat"
    desk.talk.open_chat(desk.chat("b", "x"))
    assert not bar.isVisible()


# ------------------------------------------------------------------------------------------ very many


@pytest.mark.slow
def test_ten_thousand_chats_in_the_window(desk: Desk, qtbot: QtBot) -> None:
    words = fill(desk.store, 10_000, 10)

    def least(act: Callable[[], object]) -> float:
        best = 9.0
        for _ in range(3):
            began = time.perf_counter()
            act()
            best = min(best, time.perf_counter() - began)
        return best

    assert least(desk.talk.refresh_chats) < 0.5
    numbers = iter(range(5000, 5010))
    assert least(lambda: desk.talk.open_chat(next(numbers))) < 0.15
    search(desk, qtbot, words[0])
    assert len(desk.list.results.model.hits) > 30
    assert least(lambda: desk.window.desk.open_hit(desk.list.results.model.hits[-1], words[0])) < 0.25
