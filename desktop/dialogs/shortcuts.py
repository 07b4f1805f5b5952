"""The keyboard shortcuts in a window, read off the menus: what has a key there is listed here."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QMenu,
    QMenuBar,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

# Keys of the fields and lists, which are in no menu.
ELSEWHERE = (
    (
        "While writing",
        (
            ("Send", "Return"),
            ("New line", "Shift+Return"),
            ("Stop the reply", "Esc"),
            ("To the next button or field", "Tab"),
            ("Keep an edited reply", "Ctrl+Return"),
        ),
    ),
)


def shortcuts_of(bar: QMenuBar) -> list[tuple[str, list[tuple[str, str]]]]:
    """By menu, in its order: what each command with a key is called, and the key as this system writes it."""
    found = []
    for top in bar.actions():
        menu = top.menu()
        rows = _rows(menu, "") if isinstance(menu, QMenu) else []
        if rows:
            found.append((_plain(top.text()), rows))
    native = QKeySequence.SequenceFormat.NativeText
    for title, keys in ELSEWHERE:
        found.append((title, [(name, QKeySequence(key).toString(native)) for name, key in keys]))
    return found


def _rows(menu: QMenu, before: str) -> list[tuple[str, str]]:
    rows = []
    for action in menu.actions():
        inner = action.menu()
        if isinstance(inner, QMenu):
            rows += _rows(inner, f"{before}{_plain(action.text())}: ")
        elif not action.shortcut().isEmpty():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            rows.append((before + _plain(action.text()), keys))
    return rows


def _plain(text: str) -> str:
    return text.replace("&", "").removesuffix("…")


class ShortcutsDialog(QDialog):
    """All shortcuts, by menu, with a search field."""

    def __init__(self, bar: QMenuBar, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard Shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search commands and keys")
        self.search.setAccessibleName("Search shortcuts")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filter)
        self.tree = QTreeWidget()
        self.tree.setAccessibleName("Keyboard shortcuts")
        self.tree.setColumnCount(2)
        self.tree.setHeaderLabels(["Command", "Keys"])
        self.tree.setRootIsDecorated(False)
        self.tree.setItemsExpandable(False)
        self.tree.setIndentation(14)
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.tree.header().setStretchLastSection(False)
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.tree.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        seen: set[str] = set()  # a command that is in two menus is listed once
        for title, rows in shortcuts_of(bar):
            fresh = [(name, keys) for name, keys in rows if keys not in seen or title in dict(ELSEWHERE)]
            seen |= {keys for _, keys in rows}
            if not fresh:
                continue
            group = QTreeWidgetItem(self.tree, [title])
            font = group.font(0)
            font.setBold(True)
            group.setFont(0, font)
            group.setFlags(Qt.ItemFlag.ItemIsEnabled)
            for name, keys in fresh:
                QTreeWidgetItem(group, [name, keys])
        self.tree.expandAll()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(self.search)
        column.addWidget(self.tree, 1)
        column.addWidget(buttons)

    def sizeHint(self) -> QSize:
        return QSize(460, 600)

    def _filter(self, text: str) -> None:
        words = text.lower().split()
        for k in range(self.tree.topLevelItemCount()):
            group = self.tree.topLevelItem(k)
            if group is None:
                continue
            items = [item for i in range(group.childCount()) if (item := group.child(i)) is not None]
            for item in items:
                said = f"{group.text(0)} {item.text(0)} {item.text(1)}".lower()
                item.setHidden(not all(word in said for word in words))
            group.setHidden(all(item.isHidden() for item in items))
