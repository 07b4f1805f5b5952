"""Wires the list of chats, its search and the marks in the transcript to what they ask for.

The window lends its widgets; the commands are in `chat_actions`. Holds nothing but what is on the screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QSplitter

from desktop.chat.chat_menu import fill_folders
from desktop.chat_actions import ChatActions
from desktop.search import Hit, Search
from desktop.settings import COLLAPSED
from desktop.store import ChatRow

if TYPE_CHECKING:
    from desktop.window import MainWindow


class ChatDesk(QObject):
    """The part of the window that is about whole chats."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._talk, self._store, self._settings = window.conversation, window.store, window.settings
        self._list, self._bar, self._menus = window.chat_list, window.hit_bar, window.menus
        self.actions = ChatActions(self._talk, self._store, window.notice, window)
        self._search = Search(self._store)
        self._list.set_folded(self._settings.get(COLLAPSED))
        self._connect_list()
        self._connect_menus()

    def _connect_list(self) -> None:
        chats, do = self._list, self.actions
        chats.opened.connect(self._talk.open_chat)
        chats.chosen.connect(lambda _: self._window.composer.setFocus())
        chats.new_requested.connect(self.new_chat)
        chats.renamed.connect(do.rename)
        chats.folder_renamed.connect(do.rename_folder)
        chats.folder_removed.connect(do.remove_folder)
        chats.pin_requested.connect(do.pin)
        chats.move_requested.connect(do.move)
        chats.folder_requested.connect(do.new_folder)
        chats.duplicate_requested.connect(do.duplicate)
        chats.export_requested.connect(do.export)
        chats.delete_requested.connect(do.delete)
        chats.undo_requested.connect(do.undo)
        chats.files_dropped.connect(do.import_files)
        chats.folds_changed.connect(lambda keys: self._settings.set(COLLAPSED, keys))
        chats.picks_changed.connect(self.update_menus)
        chats.set_finder(self._search.find)
        chats.results.opened.connect(self.open_hit)
        do.folder_made.connect(self._name_folder)
        self._bar.closed.connect(self.update_menus)

    def _connect_menus(self) -> None:
        menus, do, chats = self._menus, self.actions, self._list
        menus.new_chat.triggered.connect(self.new_chat)
        menus.new_incognito.triggered.connect(lambda: self.new_chat(incognito=True))
        menus.new_folder.triggered.connect(lambda: do.new_folder())
        menus.export_chat.triggered.connect(lambda: do.export(self._picked()))
        menus.export_all.triggered.connect(lambda: do.export_all())
        menus.import_chats.triggered.connect(lambda: do.ask_import())
        menus.rename_chat.triggered.connect(self._rename)
        menus.pin_chat.triggered.connect(lambda: do.pin(self._picked(), not self._all_pinned()))
        menus.duplicate_chat.triggered.connect(lambda: do.duplicate(self._picked()))
        menus.delete_chat.triggered.connect(lambda: do.delete(self._picked()))
        menus.deleted_chats.triggered.connect(do.show_deleted)
        menus.find.triggered.connect(self.find)
        menus.find_next.triggered.connect(self._bar.next)
        menus.find_previous.triggered.connect(self._bar.previous)
        menus.move_menu.aboutToShow.connect(self.fill_move_menu)
        chats.search.textChanged.connect(lambda _: self.update_menus())

    # --------------------------------------------------------------------------------------------- chats

    def set_chats(self, chats: list[ChatRow]) -> None:
        """Show these chats, in the folders that there are."""
        self._list.set_chats(chats, self.actions.shelf.folders())
        self.update_menus()

    def new_chat(self, incognito: bool = False) -> None:
        """Open an empty chat and go to the composer."""
        self._list.leave_search()
        self._talk.new_chat(incognito=bool(incognito))
        self._window.composer.setFocus()

    def keeps_focus(self) -> bool:
        """Whether the keyboard is in the list or its search, and stays there when a chat is opened."""
        widget = QApplication.focusWidget()
        return widget is not None and self._list.isAncestorOf(widget)

    def _picked(self) -> list[int]:
        return [row.id for row in self._list.targets()]

    def _all_pinned(self) -> bool:
        return all(row.pinned for row in self._list.targets())

    def _rename(self) -> None:
        self._uncover()
        self._list.rename_current()

    def _name_folder(self, folder: int) -> None:
        self._uncover()
        self._list.rename_folder(folder)

    def fill_move_menu(self) -> None:
        """Offer the folders that there are now."""
        rows = self._list.targets()
        numbers = [row.id for row in rows]
        fill_folders(
            self._menus.move_menu,
            self.actions.shelf.folders(),
            {row.folder for row in rows},
            lambda folder: self.actions.move(numbers, folder),
            lambda: self.actions.new_folder(numbers),
        )

    def update_menus(self) -> None:
        """What the menu bar offers goes by what is selected."""
        self._menus.set_chats(self._list.targets(), self._bar.active)

    # -------------------------------------------------------------------------------------------- search

    def find(self) -> None:
        """Go to the search field."""
        self._uncover()
        self._list.start_search()

    def open_hit(self, hit: Hit, query: str) -> None:
        """Open a chat where something was found, and go there."""
        chat = self._store.chat(hit.chat)
        if chat is None:
            return  # deleted since
        if hit.message is not None:
            self._search.reveal(hit.chat, hit.message)
        is_open = self._talk.chat is not None and self._talk.chat.id == hit.chat
        there = hit.message is None or any(row.id == hit.message for row in self._window.transcript.rows)
        if not is_open or not there:
            self._talk.open_chat(hit.chat)
        self._bar.search(query, hit.message)
        self.update_menus()

    def _uncover(self) -> None:
        """See to it that the list is seen, where the person had pushed it aside."""
        splitter = self._list.parentWidget()
        if isinstance(splitter, QSplitter) and splitter.sizes()[0] == 0:
            wide = max(210, self._list.minimumSizeHint().width())
            sizes = splitter.sizes()
            splitter.setSizes([wide, max(1, sizes[1] - wide), *sizes[2:]])
