"""The chats that were deleted in the last thirty days: bring them back, or remove them for good.

Shows what it is given and tells what is asked; knows nothing of the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMessageBox,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from desktop.chat.chat_rows import UNTITLED
from desktop.color_scheme import inherit_scheme
from desktop.store import KEPT_S

if TYPE_CHECKING:
    from desktop.shelf import Trashed

_ID = Qt.ItemDataRole.UserRole


class DeletedDialog(QDialog):
    """Recently Deleted. `chats` says what is in the trash now."""

    restore_requested = Signal(list)
    remove_requested = Signal(list)

    def __init__(self, chats: Callable[[], Sequence[Trashed]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chats = chats
        self.setWindowTitle("Recently Deleted")
        self._hint = QLabel()
        self._hint.setWordWrap(True)
        self.list = QTreeWidget()
        self.list.setAccessibleName("Deleted chats")
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setAlternatingRowColors(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setHeaderLabels(["Chat", "Messages", "Deleted", "Days Left"])
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2, 3):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.restore_button = QPushButton("Restore")
        self.remove_button = QPushButton("Delete Forever…")
        close = QPushButton("Close")
        close.setDefault(True)
        buttons = QHBoxLayout()
        buttons.addWidget(self.restore_button)
        buttons.addWidget(self.remove_button)
        buttons.addStretch(1)
        buttons.addWidget(close)
        column_of_all = QVBoxLayout(self)
        column_of_all.addWidget(self._hint)
        column_of_all.addWidget(self.list, 1)
        column_of_all.addLayout(buttons)
        self.restore_button.clicked.connect(self._restore)
        self.remove_button.clicked.connect(self._ask)
        close.clicked.connect(self.reject)
        self.list.itemSelectionChanged.connect(self._update)
        self.list.itemActivated.connect(lambda *_: self._restore())
        self.refresh()

    def sizeHint(self) -> QSize:
        return QSize(640, 420)

    def refresh(self) -> None:
        """Show what is in the trash now."""
        self.list.clear()
        items = []
        for chat in self._chats():
            day = time.strftime("%Y-%m-%d %H:%M", time.localtime(chat.deleted))
            left = max(0, int((chat.deleted + KEPT_S - time.time()) / 86400 + 0.999))
            item = QTreeWidgetItem([chat.title or UNTITLED, f"{chat.messages:,}", day, str(left)])
            item.setData(0, _ID, chat.id)
            item.setToolTip(0, chat.title)
            for column in (1, 3):
                item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            items.append(item)
        self.list.addTopLevelItems(items)
        if items:
            self._hint.setText("Deleted chats are kept for thirty days. Until then they can be brought back.")
            self.list.setCurrentItem(items[0])
        else:
            self._hint.setText("There are no deleted chats.")
        self._update()

    def picked(self) -> list[int]:
        """The chats that are selected."""
        return [int(item.data(0, _ID)) for item in self.list.selectedItems()]

    def _update(self) -> None:
        for button in (self.restore_button, self.remove_button):
            button.setEnabled(bool(self.picked()))

    def _restore(self) -> None:
        if picked := self.picked():
            self.restore_requested.emit(picked)
            self.refresh()

    def _ask(self) -> None:
        """Nothing brings these back, so it is asked once."""
        picked = self.picked()
        if not picked:
            return
        box = QMessageBox(self)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        inherit_scheme(box)
        box.setIcon(QMessageBox.Icon.Warning)
        what = f"{len(picked):,} chats" if len(picked) > 1 else f"the chat “{self.list.selectedItems()[0].text(0)}”"
        box.setText(f"Delete {what} forever?")
        box.setInformativeText("Nothing brings them back." if len(picked) > 1 else "Nothing brings it back.")
        delete = box.addButton("Delete Forever", QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        delete.clicked.connect(lambda: self._remove(picked))
        box.open()

    def _remove(self, chats: list[int]) -> None:
        self.remove_requested.emit(chats)
        self.refresh()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Delete:
            self._ask()
        else:
            super().keyPressEvent(event)
