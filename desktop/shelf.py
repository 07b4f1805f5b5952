"""What is done with whole chats: folders, pins, the trash, counts.

A deleted chat lies in the trash, out of sight, for thirty days, and can be brought back until then. Knows the store's
tables; does not know what messages say, the search, or any widget. The engine's part of a removal is only noted here
(`owed`): whoever talks with the engine settles it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass

from desktop.store import INCOGNITO, KEPT_S, Store, empty_trash
from mlx_spec.events import Problem

LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Folder:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Trashed:
    """A chat in the trash; `deleted` is when it was put there, in seconds since 1970."""

    id: int
    title: str
    deleted: float
    messages: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is, without incognito chats."""

    chats: int
    messages: int
    folders: int
    trashed: int


class Shelf:
    """Whole chats of a store, put in order."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ------------------------------------------------------------------------------------------- folders

    def folders(self) -> list[Folder]:
        """All folders by name, the empty ones too."""
        rows = self._store.read("SELECT id, name FROM folders")
        return sorted((Folder(*row) for row in rows), key=lambda f: (f.name.casefold(), f.id))

    def new_folder(self, name: str) -> Folder:
        """A folder of that name: the one that there is, or a new one. Raises `Problem` if the name is empty."""
        name = _name(name)
        for folder in self.folders():
            if folder.name == name:
                return folder
        sql = "INSERT INTO folders (name, created) VALUES (?, ?)"
        number = self._store.change(lambda c: c.execute(sql, (name, time.time())).lastrowid)
        return Folder(number, name)

    def rename_folder(self, folder_id: int, name: str) -> None:
        """Raises `Problem` if the name is empty or another folder has it."""
        name = _name(name)
        if any(f.name == name and f.id != folder_id for f in self.folders()):
            raise Problem(f"There is a folder “{name}” already.", "Choose another name.")
        self._store.change(lambda c: c.execute("UPDATE folders SET name=? WHERE id=?", (name, folder_id)))

    def remove_folder(self, folder_id: int) -> None:
        """Remove a folder; its chats stay, in no folder."""
        self._store.change(lambda c: c.execute("DELETE FROM folders WHERE id=?", (folder_id,)))

    def move(self, chat_id: int, folder_id: int | None) -> None:
        """Put a chat into a folder, or out of any. Raises `Problem` for an incognito one: folders are on the disk."""
        if chat_id >= INCOGNITO:
            raise Problem("An incognito chat cannot be put into a folder.", "It is kept in memory only.")
        self._store.change(lambda c: c.execute("UPDATE chats SET folder_id=? WHERE id=?", (folder_id, chat_id)))

    def pin(self, chat_id: int, pinned: bool) -> None:
        """Keep a chat on top of the list, or no longer."""
        sql = "UPDATE chats SET pinned=? WHERE id=?"
        self._store.change(lambda c: c.execute(sql, (int(pinned), chat_id)), chat_id)

    # --------------------------------------------------------------------------------------------- trash

    def trash(self, chat_id: int) -> None:
        """Put a chat out of sight; `restore` brings it back."""
        sql = "UPDATE chats SET deleted=? WHERE id=? AND deleted IS NULL"
        self._store.change(lambda c: c.execute(sql, (time.time(), chat_id)), chat_id)

    def restore(self, chat_id: int) -> None:
        """Bring a chat back out of the trash, as it was."""
        self._store.change(lambda c: c.execute("UPDATE chats SET deleted=NULL WHERE id=?", (chat_id,)), chat_id)

    def trashed(self) -> list[int]:
        """What is in the trash, the last deleted first."""
        found = []
        for near in (INCOGNITO, 0):
            sql = "SELECT deleted, id FROM chats WHERE deleted IS NOT NULL AND id<>?"
            found += self._store.read(sql, (INCOGNITO,), near)
        return [number for _, number in sorted(found, reverse=True)]

    def trash_list(self) -> list[Trashed]:
        """What is in the trash for a person to look at, the last deleted first; without incognito chats."""
        rows = self._store.read(
            "SELECT id, title, deleted, (SELECT count(*) FROM messages m WHERE m.chat_id=c.id) FROM chats c"
            " WHERE deleted IS NOT NULL ORDER BY deleted DESC, id DESC"
        )
        return [Trashed(*row) for row in rows]

    def remove(self, chats: Sequence[int]) -> None:
        """Remove chats that are in the trash for good; the engine's part of it is owed from then on."""
        numbers = [(number,) for number in chats if number < INCOGNITO]

        def job(c: sqlite3.Connection) -> None:
            sql = "INSERT OR IGNORE INTO forgets SELECT id FROM chats WHERE id=? AND deleted IS NOT NULL"
            c.executemany(sql, numbers)
            c.executemany("DELETE FROM chats WHERE id=? AND deleted IS NOT NULL", numbers)

        self._store.change(job)

    def remove_old(self, seconds: float = KEPT_S) -> list[int]:
        """Remove for good what has been in the trash for so long; returns which chats that were."""
        before = time.time() - seconds
        if not self._store.read("SELECT 1 FROM chats WHERE deleted < ? LIMIT 1", (before,)):
            return []
        gone: list[int] = self._store.change(lambda c: empty_trash(c, before))
        return gone

    def remove_incognito(self, chat_id: int) -> None:
        """Remove an incognito chat that is in the trash for good: nothing else would while the app runs."""
        if chat_id > INCOGNITO:
            sql = "DELETE FROM chats WHERE id=? AND deleted IS NOT NULL"
            self._store.change(lambda c: c.execute(sql, (chat_id,)), chat_id)

    # ------------------------------------------------------------------------------- the engine's part

    def owed(self) -> list[int]:
        """Removed chats whose kept replies the engine has not been seen to forget."""
        return [row[0] for row in self._store.read("SELECT chat_id FROM forgets")]

    def settle(self, chats: list[int]) -> None:
        """The engine has forgotten these."""

        def job(c: sqlite3.Connection) -> None:
            c.executemany("DELETE FROM forgets WHERE chat_id=?", [(number,) for number in chats])

        if chats:
            self._store.write(job)

    # -------------------------------------------------------------------------------------------- counts

    def counts(self) -> Counts:
        """Shown chats and their messages on all branches, folders, and what is in the trash."""
        rows = self._store.read(
            "SELECT (SELECT count(*) FROM chats WHERE deleted IS NULL),"
            " (SELECT count(*) FROM messages WHERE chat_id IN (SELECT id FROM chats WHERE deleted IS NULL)),"
            " (SELECT count(*) FROM folders), (SELECT count(*) FROM chats WHERE deleted IS NOT NULL)"
        )
        return Counts(*rows[0])


def _name(text: str) -> str:
    """A folder's name on one line. Raises `Problem` if nothing is left of it."""
    name = " ".join(text.encode("utf-8", "replace").decode("utf-8").replace("\0", "").split())[:LONGEST_NAME]
    if not name:
        raise Problem("A folder needs a name.", "Type one.")
    return name
