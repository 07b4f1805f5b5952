"""The list view of chats: its keys, clicks, and what is dropped on it. Knows the model's rows; does nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
)
from PySide6.QtWidgets import QAbstractItemDelegate, QAbstractItemView, QFrame, QListView, QWidget

from desktop.chat.chat_rows import CHATS, ChatModel, Heading

if TYPE_CHECKING:
    from desktop.store import ChatRow

_Key = Qt.Key


class Chats(QListView):
    """The list itself: its keys, and what is dropped on it."""

    delete_pressed = Signal()
    undo_pressed = Signal()
    chosen = Signal(QModelIndex)  # by Enter or a click: more than looked at
    menu_asked = Signal(QModelIndex, object)
    files_dropped = Signal(list)
    edit_ended = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Chats")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setUniformItemSizes(True)
        self.viewport().setAutoFillBackground(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.setDropIndicatorShown(True)
        self.setDragDropOverwriteMode(True)  # onto a row, not between two

    @property
    def editing(self) -> bool:
        """Whether a title is being typed."""
        return self.state() == QAbstractItemView.State.EditingState

    def undo(self) -> None:
        """What Edit > Undo does while the list has the focus."""
        self.undo_pressed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.editing:
            super().keyPressEvent(event)
            return
        key = event.key()
        command = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        # A bare Backspace is too easily meant for the text that is being written.
        if key == _Key.Key_Delete or (key == _Key.Key_Backspace and command):
            self.delete_pressed.emit()
        elif key in (_Key.Key_Return, _Key.Key_Enter) and self.currentIndex().isValid():
            self.chosen.emit(self.currentIndex())
        elif key in (_Key.Key_Left, _Key.Key_Right) and self._fold_key(key == _Key.Key_Right):
            return
        elif key == _Key.Key_Space and isinstance(self._entry(self.currentIndex()), Heading):
            self.chosen.emit(self.currentIndex())
        elif event.matches(QKeySequence.StandardKey.Undo):
            self.undo_pressed.emit()
        else:
            super().keyPressEvent(event)

    def _fold_key(self, open_it: bool) -> bool:
        entry = self._entry(self.currentIndex())
        if not isinstance(entry, Heading):
            return False
        if entry.folded == open_it:
            self.chosen.emit(self.currentIndex())
        return True

    def _entry(self, index: QModelIndex) -> Heading | ChatRow | None:
        model = self.model()
        return model.entry(index) if isinstance(model, ChatModel) else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            event.accept()  # a menu is about the row under it; nothing is picked or opened for that
            return
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        plain = event.modifiers() == Qt.KeyboardModifier.NoModifier
        index = self.indexAt(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and plain and index.isValid() and not self.editing:
            self.chosen.emit(index)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        if (
            event.button() == Qt.MouseButton.LeftButton
            and index.isValid()
            and not isinstance(self._entry(index), Heading)
        ):
            self.edit(index)
        else:
            super().mouseDoubleClickEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if index.isValid():
            at = self.visualRect(index).center() if by_key else event.pos()
            self.menu_asked.emit(index, self.viewport().mapToGlobal(at))

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        super().closeEditor(editor, QAbstractItemDelegate.EndEditHint.NoHint)
        self.edit_ended.emit()

    # ------------------------------------------------------------------------------------------- drops

    @staticmethod
    def _files(event: QDropEvent) -> list[Path]:
        return [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self._files(event):
            event.acceptProposedAction()
        elif event.mimeData().hasFormat(CHATS) and event.source() is self:
            super().dragEnterEvent(event)
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        if self._files(event):
            event.acceptProposedAction()
        else:
            super().dragMoveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        files = self._files(event)
        if files:
            event.acceptProposedAction()
            self.files_dropped.emit(files)
        else:
            super().dropEvent(event)
