"""The list of chats at the left: pick, start, rename in place, fold, move, delete, and the search above it.

Tells what a person asks for; does nothing of it itself. Knows chat rows and folders; does not know the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from desktop.chat.chat_menu import ChatMenu
from desktop.chat.chat_rows import ChatModel, Heading, arrange
from desktop.chat.chats_view import Chats
from desktop.chat.row_painter import ChatPainter
from desktop.chat.search_panel import SearchField, SearchPanel

if TYPE_CHECKING:
    from desktop.search import Found
    from desktop.shelf import Folder
    from desktop.store import ChatRow

_Flag = QItemSelectionModel.SelectionFlag


class ChatList(QWidget):
    """Chats in their sections, the latest first as they are given; what a search found in their place."""

    opened = Signal(int)  # looked at
    chosen = Signal(int)  # and meant to be gone on with
    new_requested = Signal()
    renamed = Signal(int, str)
    folder_renamed = Signal(int, str)
    folder_removed = Signal(int)
    pin_requested = Signal(list, bool)
    move_requested = Signal(list, object)
    folder_requested = Signal(list)
    duplicate_requested = Signal(list)
    export_requested = Signal(list)
    delete_requested = Signal(list)
    undo_requested = Signal()
    files_dropped = Signal(list)
    folds_changed = Signal(tuple)
    picks_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chats: Sequence[ChatRow] = ()
        self._by_id: dict[int, ChatRow] = {}
        self._folders: Sequence[Folder] = ()
        self._folded: tuple[str, ...] = ()
        self._waiting = False  # rows that came while a title was typed
        self._open: int | None = None
        self._quiet = False  # what is picked is changed by the app, not by a person
        self.model = ChatModel(self)
        self._build()
        self.model.renamed.connect(self.renamed)
        self.model.folder_renamed.connect(self.folder_renamed)
        self.model.chats_dropped.connect(self.move_requested)
        picks = self.list.selectionModel()
        picks.selectionChanged.connect(self._picked)
        self.list.chosen.connect(self._chosen)
        self.list.delete_pressed.connect(self.delete_picked)
        self.list.undo_pressed.connect(self.undo_requested)
        self.list.menu_asked.connect(self._show_menu)
        self.list.files_dropped.connect(self.files_dropped)
        self.list.edit_ended.connect(self._edit_ended)
        self.search.textChanged.connect(self._search_changed)
        self.search.left.connect(self.leave_search)
        self.search.entered.connect(self.results.enter)
        self.results.left_upwards.connect(self.search.setFocus)
        self.results.left.connect(self.leave_search)

    def _build(self) -> None:
        heading = QLabel("Chats", self)
        font = heading.font()
        font.setBold(True)
        heading.setFont(font)
        self.new_button = QPushButton("New chat", self)
        self.new_button.setAccessibleName("New chat")
        self.new_button.clicked.connect(lambda: self.new_requested.emit())
        self.search = SearchField(self)
        self.list = Chats(self)
        self.painter = ChatPainter(self.list)
        self.list.setItemDelegate(self.painter)
        self.list.setModel(self.model)
        self.results = SearchPanel(self)
        self.pages = QStackedWidget(self)
        self.pages.addWidget(self.list)
        self.pages.addWidget(self.results)
        across = QHBoxLayout()
        across.setContentsMargins(14, 0, 10, 0)
        across.addWidget(heading, 1)
        across.addWidget(self.new_button)
        below = QHBoxLayout()
        below.setContentsMargins(10, 0, 10, 0)
        below.addWidget(self.search)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 10, 0, 6)
        layout.setSpacing(8)
        layout.addLayout(across)
        layout.addLayout(below)
        layout.addWidget(self.pages, 1)

    # -------------------------------------------------------------------------------------- what is shown

    def set_chats(self, chats: Sequence[ChatRow], folders: Sequence[Folder] = ()) -> None:
        """Show these chats; what is picked stays picked, a rename that is being typed is not cut off."""
        self._chats, self._folders = chats, folders
        self._by_id = {chat.id: chat for chat in chats}
        self._fill()

    def set_folded(self, keys: Sequence[str]) -> None:
        """Fold these sections, unfold the others."""
        self._folded = tuple(keys)
        self._fill()

    def _fill(self) -> None:
        if self.list.editing:
            self._waiting = True
            return
        self._waiting = False
        picked, bar = self.picked(), self.list.verticalScrollBar()
        current, place = self.model.entry(self.list.currentIndex()), bar.value()
        with self._quietly():
            if not self.model.set_rows(arrange(self._chats, self._folders, self._folded)):
                return
            self._pick(picked)
            if isinstance(current, Heading):
                self._focus(self.model.heading(current.key))
            elif current is not None:
                self._focus(self.model.index_of(current.id))
        bar.setValue(place)

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _focus(self, index: QModelIndex, how: QItemSelectionModel.SelectionFlag = _Flag.NoUpdate) -> None:
        self.list.selectionModel().setCurrentIndex(index, how)

    def _pick(self, chats: Sequence[int]) -> None:
        wanted = QItemSelection()
        for number in chats:
            index = self.model.index_of(number)
            if index.isValid():
                wanted.select(index, index)
        self.list.selectionModel().select(wanted, _Flag.ClearAndSelect)

    def select(self, chat_id: int) -> None:
        """Mark a chat as the one that is open, without asking for it to be opened."""
        before = self._open
        self._open = self.painter.open_id = chat_id if chat_id in self._by_id else None
        index = self.model.index_of(chat_id)
        if self._open != before and chat_id not in self.picked():
            with self._quietly():
                self._focus(index, _Flag.ClearAndSelect if index.isValid() else _Flag.Clear)
            if index.isValid():
                self.list.scrollTo(index)
        self.list.viewport().update()
        self.picks_changed.emit()

    def reveal(self, chat_id: int) -> None:
        """Unfold the section of a chat."""
        if chat_id in self._by_id and not self.model.index_of(chat_id).isValid():
            for row in arrange(self._chats, self._folders, ()):
                if isinstance(row, Heading):
                    key = row.key
                elif row.id == chat_id:
                    self.fold(key, False)
                    return

    def fold(self, key: str, folded: bool) -> None:
        """Fold or unfold a section, as a person does."""
        self._folded = tuple(k for k in self._folded if k != key) + ((key,) if folded else ())
        self._fill()
        self.folds_changed.emit(self._folded)

    # ------------------------------------------------------------------------------------ what is picked

    def open_id(self) -> int | None:
        """The chat that is marked as open."""
        return self._open

    def picked(self) -> list[int]:
        """The chats that are selected, in the list's order."""
        rows = sorted(self.list.selectionModel().selectedIndexes(), key=lambda index: index.row())
        entries = [self.model.entry(index) for index in rows]
        return [entry.id for entry in entries if entry is not None and not isinstance(entry, Heading)]

    def targets(self) -> list[ChatRow]:
        """The chats that a command of the menu bar is about: what is selected, else the one that is open."""
        numbers = self.picked() or ([self._open] if self._open is not None else [])
        return [self._by_id[number] for number in numbers if number in self._by_id]

    def _picked(self) -> None:
        if self._quiet:
            return
        picked = self.picked()
        if len(picked) == 1 and picked[0] != self._open:
            self.opened.emit(picked[0])
        self.picks_changed.emit()

    def _chosen(self, index: QModelIndex) -> None:
        entry = self.model.entry(index)
        if isinstance(entry, Heading):
            self.fold(entry.key, not entry.folded)
        elif entry is not None:
            if entry.id != self._open:
                self.opened.emit(entry.id)
            self.chosen.emit(entry.id)

    # ------------------------------------------------------------------------------------- what is asked

    def rename_current(self) -> None:
        """Let the person type a new title in place: of the folder that has the focus, else of the chat."""
        entry = self.model.entry(self.list.currentIndex())
        if self.list.hasFocus() and isinstance(entry, Heading):
            self.rename_folder(entry.folder)
            return
        rows = self.targets()
        if rows:
            self.rename(rows[0].id)

    def rename(self, chat_id: int) -> None:
        """Let the person type a chat's title in place."""
        self.leave_search()
        self.reveal(chat_id)
        self._edit(self.model.index_of(chat_id))

    def rename_folder(self, folder_id: int | None) -> None:
        """Let the person type a folder's name in place."""
        if folder_id is not None:
            self.leave_search()
            self._edit(self.model.heading(f"folder {folder_id}"))

    def _edit(self, index: QModelIndex) -> None:
        if index.isValid():
            self.list.scrollTo(index)
            self._focus(index)
            self.list.edit(index)

    def _edit_ended(self) -> None:
        if self._waiting:
            self._fill()

    def delete_picked(self) -> None:
        """Ask for the chats that are selected to be deleted, or for the folder that has the focus."""
        entry = self.model.entry(self.list.currentIndex())
        if isinstance(entry, Heading):
            if entry.folder is not None:
                self.folder_removed.emit(entry.folder)
            return
        if picked := self.picked():
            self.delete_requested.emit(picked)

    def menu_for(self, index: QModelIndex) -> ChatMenu | None:
        """What can be done with a row: with all that is selected if the row is part of it."""
        entry = self.model.entry(index)
        if isinstance(entry, Heading):
            return ChatMenu.for_heading(self, entry)
        if entry is None:
            return None
        picked = self.picked()
        rows = [self._by_id[n] for n in picked] if entry.id in picked else [entry]
        return ChatMenu.for_chats(self, rows, self._folders)

    def _show_menu(self, index: QModelIndex, at: object) -> None:
        menu = self.menu_for(index)
        if menu is None:
            return
        self.painter.menu_row = index.row()
        self.list.viewport().update()
        menu.aboutToHide.connect(self._menu_gone)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(at)  # type: ignore[arg-type]

    def _menu_gone(self) -> None:
        self.painter.menu_row = -1
        self.list.viewport().update()

    # -------------------------------------------------------------------------------------------- search

    def start_search(self) -> None:
        """Put the keyboard into the search field."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def leave_search(self) -> None:
        """Show the chats again."""
        had_focus = self.search.hasFocus() or self.results.isAncestorOf(self.focusWidget() or self)
        self.search.clear()
        if had_focus:
            self.list.setFocus()

    def _search_changed(self, text: str) -> None:
        searching = bool(text.strip())
        self.pages.setCurrentWidget(self.results if searching else self.list)
        self.results.ask(text)

    def set_finder(self, find: Callable[[str], Found]) -> None:
        """`find` gives what a search finds; it is called on a thread of its own."""
        self.results.finder = find
