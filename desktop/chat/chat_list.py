"""The list of chats: pick, start, rename in place, delete. Knows chat rows; does not know the store."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QPainter, QPalette, QTextOption
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from desktop.theme import colors_of, readable

if TYPE_CHECKING:
    from desktop.store import ChatRow

UNTITLED = "New chat"
_ID = Qt.ItemDataRole.UserRole


class TitleDelegate(QStyledItemDelegate):
    """Paints a title in its own direction, whatever the window's is."""

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(60, option.fontMetrics.height() + 14)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        rect, palette = option.rect, option.palette
        state = option.state
        colors = colors_of(option.widget)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        box = rect.adjusted(6, 1, -6, -1)
        ink = palette.color(QPalette.ColorRole.WindowText)
        if state & QStyle.StateFlag.State_Selected:
            painter.setBrush(colors.bubble)
            painter.drawRoundedRect(box, 7, 7)
            ink = readable(colors.text, colors.bubble)
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(colors.panel)
            painter.drawRoundedRect(box, 7, 7)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(colors.accent)
            painter.drawRoundedRect(box, 7, 7)
        painter.setPen(ink)
        inside = box.adjusted(10, 0, -10, 0)
        title = str(index.data(Qt.ItemDataRole.DisplayRole) or "")
        right = title.isascii() is False and _is_right_to_left(title)
        text = option.fontMetrics.elidedText(title, Qt.TextElideMode.ElideRight, inside.width())
        flow = QTextOption(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignAbsolute)
        side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
        flow.setAlignment(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignAbsolute | side)
        flow.setTextDirection(
            Qt.LayoutDirection.RightToLeft if right else Qt.LayoutDirection.LeftToRight,
        )
        flow.setWrapMode(QTextOption.WrapMode.NoWrap)
        painter.setFont(option.font)
        painter.drawText(inside, text, flow)
        painter.restore()


def _is_right_to_left(text: str) -> bool:
    """Whether the first strong character of a text is from a script that runs to the left."""
    for c in text:
        kind = unicodedata.bidirectional(c)
        if kind == "L":
            return False
        if kind in ("R", "AL"):
            return True
    return False


class Titles(QListWidget):
    """The list itself, with Delete and Enter."""

    delete_pressed = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        busy = self.state() == QAbstractItemView.State.EditingState
        if not busy and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.delete_pressed.emit()
            return
        if not busy and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentItem():
            self.itemActivated.emit(self.currentItem())
            return
        super().keyPressEvent(event)


class ChatList(QWidget):
    """Chats, the latest first as they are given."""

    opened = Signal(int)
    new_requested = Signal()
    renamed = Signal(int, str)
    delete_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        heading = QLabel("Chats", self)
        font = heading.font()
        font.setBold(True)
        heading.setFont(font)
        self.new_button = QPushButton("New chat", self)
        self.new_button.setAccessibleName("New chat")
        self.new_button.clicked.connect(lambda: self.new_requested.emit())
        self.list = Titles(self)
        self.list.setAccessibleName("Chats")
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setItemDelegate(TitleDelegate(self.list))
        self.list.setMouseTracking(True)
        self.list.setUniformItemSizes(True)
        self.list.viewport().setAutoFillBackground(False)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed | QAbstractItemView.EditTrigger.DoubleClicked
        )
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        across = QHBoxLayout()
        across.setContentsMargins(14, 0, 10, 0)
        across.addWidget(heading, 1)
        across.addWidget(self.new_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 10, 0, 6)
        layout.setSpacing(8)
        layout.addLayout(across)
        layout.addWidget(self.list, 1)
        self.list.currentItemChanged.connect(self._moved)
        self.list.itemChanged.connect(self._edited)
        self.list.delete_pressed.connect(self.delete_current)
        self.list.customContextMenuRequested.connect(self._menu)

    def set_chats(self, rows: Sequence[ChatRow]) -> None:
        """Show these chats in this order; the picked one stays picked, an open rename is not cut off."""
        if self.list.state() == QAbstractItemView.State.EditingState:
            known = {self._id(self.list.item(k)) for k in range(self.list.count())}
            if known == {row.id for row in rows}:
                return
        current = self.current_id()
        with QSignalBlocker(self.list):
            self.list.clear()
            for row in rows:
                item = QListWidgetItem(row.title or UNTITLED)
                item.setData(_ID, row.id)
                item.setToolTip(row.title)
                item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
                self.list.addItem(item)
        if current is not None:
            self.select(current)

    def current_id(self) -> int | None:
        """The chat that is picked."""
        item = self.list.currentItem()
        return self._id(item) if item is not None else None

    def select(self, chat_id: int) -> None:
        """Mark a chat as the one that is open, without asking for it to be opened."""
        with QSignalBlocker(self.list):
            for k in range(self.list.count()):
                if self._id(self.list.item(k)) == chat_id:
                    self.list.setCurrentRow(k)
                    return
            self.list.setCurrentRow(-1)

    def rename_current(self) -> None:
        """Let the person type a new title in place."""
        item = self.list.currentItem()
        if item is not None:
            self.list.editItem(item)

    def delete_current(self) -> None:
        """Ask for the picked chat to be deleted; whoever listens asks whether it is meant."""
        chat = self.current_id()
        if chat is not None:
            self.delete_requested.emit(chat)

    @staticmethod
    def _id(item: QListWidgetItem) -> int:
        return int(item.data(_ID))

    def _moved(self, current: QListWidgetItem | None, previous: QListWidgetItem | None) -> None:
        if current is not None:
            self.opened.emit(self._id(current))

    def _edited(self, item: QListWidgetItem) -> None:
        title = " ".join(item.text().split())
        with QSignalBlocker(self.list):
            item.setText(title or item.toolTip() or UNTITLED)
        if title and title != item.toolTip():
            item.setToolTip(title)
            self.renamed.emit(self._id(item), title)

    def _menu(self, point: QPoint) -> None:
        item = self.list.itemAt(point)
        if item is None:
            return
        menu = self.menu_for(item)
        menu.exec(self.list.viewport().mapToGlobal(point))
        menu.deleteLater()

    def menu_for(self, item: QListWidgetItem) -> QMenu:
        """What can be done with a chat."""
        menu = QMenu(self)
        rename = QAction("Rename", menu)
        rename.triggered.connect(lambda: self.list.editItem(item))
        delete = QAction("Delete…", menu)
        delete.setShortcut(QKeySequence(QKeySequence.StandardKey.Delete))
        chat = self._id(item)
        delete.triggered.connect(lambda: self.delete_requested.emit(chat))
        for action in (rename, delete):
            action.setMenuRole(QAction.MenuRole.NoRole)
            menu.addAction(action)
        return menu
