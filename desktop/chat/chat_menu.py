"""The menu of a row in the list of chats, and the choice of folders that the menu bar has, too.

Asks through the list's signals; knows chat rows and folders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

if TYPE_CHECKING:
    from desktop.chat.chat_list import ChatList
    from desktop.chat.chat_rows import Heading
    from desktop.shelf import Folder
    from desktop.store import ChatRow

NO_ROLE = QAction.MenuRole.NoRole


class ChatMenu(QMenu):
    """Made anew each time it is shown."""

    @classmethod
    def for_chats(cls, chats: ChatList, rows: Sequence[ChatRow], folders: Sequence[Folder]) -> ChatMenu:
        """For one chat or several."""
        menu = cls(chats)
        numbers = [row.id for row in rows]
        several = len(rows) > 1
        if not several:
            menu.add("Rename", lambda: chats.rename(numbers[0]))
        if not any(row.incognito for row in rows):
            pinned = all(row.pinned for row in rows)
            menu.add("Unpin" if pinned else "Pin", lambda: chats.pin_requested.emit(numbers, not pinned))
            move = QMenu("Move to Folder", menu)
            fill_folders(
                move,
                folders,
                {row.folder for row in rows},
                lambda folder: chats.move_requested.emit(numbers, folder),
                lambda: chats.folder_requested.emit(numbers),
            )
            menu.addMenu(move).setMenuRole(NO_ROLE)
        menu.add("Duplicate", lambda: chats.duplicate_requested.emit(numbers))
        menu.add(f"Export {len(rows):,} Chats…" if several else "Export…", lambda: chats.export_requested.emit(numbers))
        menu.addSeparator().setMenuRole(NO_ROLE)
        delete = f"Delete {len(rows):,} Chats" if several else "Delete"
        menu.add(delete, lambda: chats.delete_requested.emit(numbers))
        return menu

    @classmethod
    def for_heading(cls, chats: ChatList, heading: Heading) -> ChatMenu:
        """For a section; a folder's has more."""
        menu = cls(chats)
        menu.add("Unfold" if heading.folded else "Fold", lambda: chats.fold(heading.key, not heading.folded))
        folder = heading.folder
        if folder is not None:
            menu.add("Rename Folder", lambda: chats.rename_folder(folder))
            menu.addSeparator().setMenuRole(NO_ROLE)
            menu.add("Delete Folder, Keep Its Chats", lambda: chats.folder_removed.emit(folder))
        return menu

    def add(self, text: str, act: Callable[[], object]) -> QAction:
        """An action at the end."""
        action = self.addAction(text)
        action.setMenuRole(NO_ROLE)
        action.triggered.connect(lambda: act())
        return action


def fill_folders(
    menu: QMenu,
    folders: Sequence[Folder],
    here: set[int | None],
    move: Callable[[int | None], object],
    new: Callable[[], object],
) -> None:
    """Fill a menu with the folders that chats can be moved to; the one where all of them are is ticked."""
    menu.clear()
    choices: list[tuple[str, int | None]] = [(f.name.replace("&", "&&"), f.id) for f in folders]
    for name, number in [*choices, ("No Folder", None)]:
        if number is None and folders:
            menu.addSeparator().setMenuRole(NO_ROLE)
        action = menu.addAction(name)
        action.setCheckable(True)
        action.setChecked(here == {number})
        action.triggered.connect(lambda _=False, n=number: move(n))
        action.setMenuRole(NO_ROLE)
    action = menu.addAction("New Folder")
    action.setMenuRole(NO_ROLE)
    action.triggered.connect(lambda: new())
