"""What is done with whole chats when the window asks for it: folders, pins, copies, the trash, export, import.

What a person can regret is told in the notice with a way back. Slow work is done on a thread beside the window. Knows
the conversation, the shelf and the transfer; does not know the list or the menus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QWidget

from desktop.color_scheme import inherit_scheme
from desktop.conversation import Conversation
from desktop.dialogs.background import Background
from desktop.dialogs.deleted import DeletedDialog
from desktop.dialogs.notice_bar import NoticeBar
from desktop.dialogs.transfer import ExportDialog, import_dialog
from desktop.shelf import Shelf
from desktop.store import INCOGNITO, Store
from desktop.transfer import files
from desktop.transfer.bundle import duplicate
from desktop.transfer.formats import Format, file_name
from desktop.transfer.merge import Added, add, counted
from mlx_spec.events import Failed, Problem

NEW_FOLDER = "New Folder"


def each(act: Callable[[int], None], chats: Sequence[int]) -> None:
    """Do something with every chat."""
    for number in chats:
        act(number)


class ChatActions(QObject):
    """The commands. A `Problem` in any of them is told by the conversation, like all others."""

    folder_made = Signal(int)  # its name is to be typed now

    def __init__(self, conversation: Conversation, store: Store, notice: NoticeBar, window: QWidget) -> None:
        super().__init__(window)
        self._talk, self._store, self._notice, self._window = conversation, store, notice, window
        self.shelf = Shelf(store)
        self._background = Background(self)
        self._deleted: DeletedDialog | None = None

    def _try(self, act: Callable[[], object]) -> bool:
        """Do something and show the chats anew; say so if it could not be done."""
        try:
            act()
        except Problem as problem:
            self._talk.problem.emit(Failed(0, problem.message, problem.remedy))
            return False
        finally:
            self._talk.refresh_chats()
        return True

    # ------------------------------------------------------------------------------------ folders, pins

    def rename(self, chat_id: int, title: str) -> None:
        """Give a chat another title."""
        self._try(lambda: self._store.rename_chat(chat_id, title[:200]))

    def pin(self, chats: Sequence[int], pinned: bool) -> None:
        """Keep chats on top, or no longer."""
        self._try(lambda: each(lambda number: self.shelf.pin(number, pinned), chats))

    def move(self, chats: Sequence[int], folder: int | None) -> None:
        """Put chats into a folder, or out of any."""
        self._try(lambda: each(lambda number: self.shelf.move(number, folder), chats))

    def new_folder(self, chats: Sequence[int] = ()) -> None:
        """Make a folder and put chats into it; its name is typed in its place."""
        taken = {folder.name for folder in self.shelf.folders()}
        name, k = NEW_FOLDER, 1
        while name in taken:
            k += 1
            name = f"{NEW_FOLDER} {k}"
        made: list[int] = []

        def act() -> None:
            made.append(self.shelf.new_folder(name).id)
            for number in chats:
                if number < INCOGNITO:
                    self.shelf.move(number, made[0])

        if self._try(act):
            self.folder_made.emit(made[0])

    def rename_folder(self, folder: int, name: str) -> None:
        """Give a folder another name."""
        self._try(lambda: self.shelf.rename_folder(folder, name))

    def remove_folder(self, folder: int) -> None:
        """Remove a folder; its chats stay."""
        name = next((f.name for f in self.shelf.folders() if f.id == folder), "")
        inside = [chat.id for chat in self._store.chats() if chat.folder == folder]
        if name and self._try(lambda: self.shelf.remove_folder(folder)):
            kept = {0: "", 1: " Its chat is kept."}.get(len(inside), f" Its {len(inside):,} chats are kept.")
            back = lambda: self._try(lambda: self._refill(name, inside))  # noqa: E731
            self._notice.tell(f"Folder “{name}” deleted.{kept}", "Undo", back)

    def _refill(self, name: str, chats: Sequence[int]) -> None:
        folder = self.shelf.new_folder(name)
        for number in chats:
            self.shelf.move(number, folder.id)

    def duplicate(self, chats: Sequence[int]) -> None:
        """Copies of chats; a single one is opened."""
        made: list[int] = []
        if self._try(lambda: made.extend(duplicate(self._store, number) for number in chats)) and len(made) == 1:
            self._talk.open_chat(made[0])

    # -------------------------------------------------------------------------------------------- trash

    def delete(self, chats: Sequence[int]) -> None:
        """Put chats into the trash, with a way back."""
        if not chats:
            return
        is_open = self._talk.chat.id if self._talk.chat is not None else None
        numbers = list(chats)
        if self._try(lambda: self._talk.delete_chats(numbers)):
            words = "Chat deleted." if len(numbers) == 1 else f"{len(numbers):,} chats deleted."
            self._notice.tell(
                words,
                "Undo",
                lambda: self.restore(numbers, is_open if is_open in numbers else None),
                lambda: self._forget_incognito(numbers),
            )

    def restore(self, chats: Sequence[int], open_id: int | None = None) -> None:
        """Bring chats back out of the trash; one of them may be opened."""
        if self._try(lambda: each(self.shelf.restore, chats)) and open_id is not None:
            self._talk.open_chat(open_id)

    def undo(self) -> None:
        """Take the last thing back that the notice offers to."""
        if self._notice.can_act:
            self._notice.act()

    def _forget_incognito(self, chats: Sequence[int]) -> None:
        for number in chats:
            self.shelf.remove_incognito(number)

    def show_deleted(self) -> None:
        """Open Recently Deleted."""
        if self._deleted is None:
            self._deleted = DeletedDialog(self.shelf.trash_list, self._window)
            inherit_scheme(self._deleted)
            self._deleted.restore_requested.connect(self._restore_deleted)
            self._deleted.remove_requested.connect(self.remove)
        self._deleted.refresh()
        if self._deleted.isVisible():
            self._deleted.raise_()
            self._deleted.activateWindow()
        self._deleted.show()

    def _restore_deleted(self, chats: list[int]) -> None:
        self._notice.dismiss()
        self.restore(chats, chats[0] if len(chats) == 1 else None)

    def remove(self, chats: Sequence[int]) -> None:
        """Remove chats in the trash for good, and what the engine keeps of them."""
        self._notice.dismiss()  # what it offers to bring back may be among them
        if self._try(lambda: self.shelf.remove(chats)):
            self._talk.forget_removed()

    # --------------------------------------------------------------------------------- export and import

    def export(self, chats: Sequence[int]) -> ExportDialog | None:
        """Ask where to write some chats, then write them."""
        if not chats:
            return None
        many = len(chats) > 1
        chat = self._store.chat(chats[0])
        name = "Outrider chats" if many or chat is None else Path(file_name(chat.title, "x")).stem
        dialog = ExportDialog(self._window, name, many)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(lambda form, path: self.write(chats, form, path, many))
        dialog.open()
        return dialog

    def export_all(self) -> ExportDialog | None:
        """Ask where to write all chats but incognito ones, then write them."""
        chats = [chat.id for chat in self._store.chats() if not chat.incognito]
        if not chats:
            self._notice.tell("There are no chats to export.")
            return None
        dialog = ExportDialog(self._window, "Outrider chats", many=True)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(lambda form, path: self.write(chats, form, path, True))
        dialog.open()
        return dialog

    def write(self, chats: Sequence[int], form: Format, path: Path, many: bool) -> None:
        """Write chats to a file, beside the window."""
        if len(chats) > 1:
            self._notice.tell(f"Exporting {counted(len(chats))}…")

        def work() -> None:
            if many:
                files.save_all(self._store, chats, form, path)
            else:
                files.save_one(self._store, chats[0], form, path)

        def done(_: None) -> None:
            what = counted(len(chats)) if len(chats) > 1 else "Chat"
            self._notice.tell(f"{what} exported to {path.name}.")

        self._background.run(work, done, self._failed)

    def ask_import(self) -> QWidget:
        """Ask which files to import, then import them."""
        dialog = import_dialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(lambda names: self.import_files([Path(name) for name in names]))
        dialog.open()
        return dialog

    def import_files(self, paths: Sequence[Path]) -> None:
        """Import files, beside the window; all of them or none."""
        self._notice.tell("Importing…")
        self._background.run(lambda: add(self._store, files.load(paths)), self._imported, self._failed)

    def _imported(self, added: Added) -> None:
        self._talk.refresh_chats()
        made = list(added.chats)
        undo = (lambda: self._take_back(made)) if made else None
        self._notice.tell(added.words, "Undo", undo)
        if len(made) == 1:
            self._talk.open_chat(made[0])

    def _take_back(self, chats: Sequence[int]) -> None:
        self._try(lambda: self._talk.delete_chats(chats))

    def _failed(self, error: Exception) -> None:
        self._notice.dismiss()
        if isinstance(error, Problem):
            self._talk.problem.emit(Failed(0, error.message, error.remedy))
        else:
            words = f"It could not be done ({type(error).__name__}: {error})."
            self._talk.problem.emit(Failed(0, words, "Your chats are as they were."))
