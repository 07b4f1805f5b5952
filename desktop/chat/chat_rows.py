"""Puts chats under headings, and shows them to a list view: pinned, folders, then by the day they were last used.

Headings are rows like the others, so that ten thousand chats are one flat list of which only what is in sight is
painted. Knows chat rows and folders; does not know the store or how a row looks.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractListModel, QMimeData, QModelIndex, QPersistentModelIndex, Qt, Signal

if TYPE_CHECKING:
    from desktop.shelf import Folder
    from desktop.store import ChatRow

UNTITLED = "New chat"
CHATS = "application/x-outrider-chats"
AnyIndex = QModelIndex | QPersistentModelIndex
ENTRY = Qt.ItemDataRole.UserRole
_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Heading:
    """A section's first row. `key` is what its fold is remembered by; `folder` is set for a folder's."""

    key: str
    title: str
    count: int
    folded: bool = False
    folder: int | None = None


def arrange(
    chats: Sequence[ChatRow], folders: Sequence[Folder], folded: Collection[str] = (), now: float | None = None
) -> list[Heading | ChatRow]:
    """The rows of the list: a heading, then its chats unless it is folded. Chats come as they are given, latest first.

    Incognito chats come first of all; a pinned chat is under Pinned, wherever it is filed; empty folders are shown.
    """
    now = time.time() if now is None else now
    sections: dict[str, tuple[str, int | None, list[ChatRow]]] = {
        "incognito": ("Incognito", None, []),
        "pinned": ("Pinned", None, []),
    }
    for folder in folders:
        sections[f"folder {folder.id}"] = (folder.name, folder.id, [])
    midnight = _midnight(now)
    for chat in chats:
        filed = f"folder {chat.folder}"
        if chat.incognito:
            key = "incognito"
        elif chat.pinned:
            key = "pinned"
        elif filed in sections:
            key = filed
        else:
            key, title = _age(chat.updated, midnight, now)
            if key not in sections:
                sections[key] = (title, None, [])
        sections[key][2].append(chat)
    rows: list[Heading | ChatRow] = []
    for key, (title, number, members) in sections.items():
        if members or number is not None:
            rows.append(Heading(key, title, len(members), key in folded, number))
            if key not in folded:
                rows += members
    return rows


def _midnight(now: float) -> float:
    day = time.localtime(now)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))


def _age(when: float, midnight: float, now: float) -> tuple[str, str]:
    """The key and the title of the section for a time: days are told apart, then months, then years."""
    for days, key, title in (
        (0, "today", "Today"),
        (1, "yesterday", "Yesterday"),
        (7, "week", "Last 7 Days"),
        (30, "month", "Last 30 Days"),
    ):
        if when >= midnight - days * _DAY:
            return key, title
    try:
        day = time.localtime(when)
    except (OverflowError, ValueError, OSError):  # a file that was imported may say anything
        return "earlier", "Earlier"
    if day.tm_year == time.localtime(now).tm_year:
        return f"{day.tm_year}-{day.tm_mon}", time.strftime("%B", day)
    return str(day.tm_year), str(day.tm_year)


class ChatModel(QAbstractListModel):
    """The rows for a view. What a person does to a row is told, not done."""

    renamed = Signal(int, str)
    folder_renamed = Signal(int, str)
    chats_dropped = Signal(list, object)  # chats, and the number of the folder or None

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._rows: list[Heading | ChatRow] = []
        self._place: dict[int, int] = {}  # of each chat that is shown

    def set_rows(self, rows: list[Heading | ChatRow]) -> bool:
        """Show these rows. False if they are shown already."""
        if rows == self._rows:
            return False
        self.beginResetModel()
        self._rows = rows
        self._place = {row.id: k for k, row in enumerate(rows) if not isinstance(row, Heading)}
        self.endResetModel()
        return True

    def entry(self, index: AnyIndex) -> Heading | ChatRow | None:
        """What a row stands for."""
        return self._rows[index.row()] if index.isValid() and index.row() < len(self._rows) else None

    def index_of(self, chat_id: int) -> QModelIndex:
        """Where a chat is; not valid if it is not shown."""
        return self.index(self._place[chat_id]) if chat_id in self._place else QModelIndex()

    def heading(self, key: str) -> QModelIndex:
        """Where a section's heading is; not valid if there is none."""
        for k, row in enumerate(self._rows):
            if isinstance(row, Heading) and row.key == key:
                return self.index(k)
        return QModelIndex()

    def rowCount(self, parent: AnyIndex | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.entry(index)
        if row is None:
            return None
        if role == ENTRY:
            return row
        is_heading = isinstance(row, Heading)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return row.title or UNTITLED
        if role == Qt.ItemDataRole.EditRole:
            return row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            if isinstance(row, Heading):
                chats = "1 chat" if row.count == 1 else f"{row.count} chats"
                return f"{row.title}, {chats}, {'folded' if row.folded else 'unfolded'}"
            return (row.title or UNTITLED) + (", incognito" if row.incognito else "")
        if role == Qt.ItemDataRole.AccessibleDescriptionRole and is_heading:
            return "Section"
        return None

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self.entry(index)
        title = " ".join(str(value).split())
        if role != Qt.ItemDataRole.EditRole or row is None or not title or title == row.title:
            return False
        if isinstance(row, Heading):
            if row.folder is not None:
                self.folder_renamed.emit(row.folder, title)
        else:
            self.renamed.emit(row.id, title)
        return True

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        row = self.entry(index)
        if row is None:
            return Qt.ItemFlag.NoItemFlags
        flag = Qt.ItemFlag
        found = flag.ItemIsEnabled | flag.ItemNeverHasChildren
        if isinstance(row, Heading):
            # A heading takes the keyboard's focus, but it is never one of the selected chats.
            return found | (flag.ItemIsEditable | flag.ItemIsDropEnabled if row.folder is not None else found)
        return found | flag.ItemIsSelectable | flag.ItemIsEditable | flag.ItemIsDragEnabled | flag.ItemIsDropEnabled

    # ------------------------------------------------------------------------------------------- dragging

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction | Qt.DropAction.CopyAction

    def mimeTypes(self) -> list[str]:
        return [CHATS]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        rows = [self.entry(index) for index in indexes]
        numbers = [str(row.id) for row in rows if row is not None and not isinstance(row, Heading)]
        data = QMimeData()
        data.setData(CHATS, " ".join(numbers).encode())
        return data

    def canDropMimeData(self, data: QMimeData, action: Any, row: int, column: int, parent: AnyIndex) -> bool:
        entry = self.entry(parent)
        if not data.hasFormat(CHATS) or entry is None:
            return False
        return not (entry.key in ("incognito", "pinned") if isinstance(entry, Heading) else entry.incognito)

    def dropMimeData(self, data: QMimeData, action: Any, row: int, column: int, parent: AnyIndex) -> bool:
        if not self.canDropMimeData(data, action, row, column, parent):
            return False
        entry = self.entry(parent)
        assert entry is not None
        numbers = [int(part) for part in bytes(data.data(CHATS).data()).split()]
        self.chats_dropped.emit(numbers, entry.folder)
        return False  # nothing is taken out of the view: it is filled anew once the chats have moved
