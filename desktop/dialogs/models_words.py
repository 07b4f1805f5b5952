"""Words and signs that the pages of the model browser share: verdicts, figures, labels."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QHeaderView, QLabel, QSizePolicy, QTreeWidget, QTreeWidgetItem

from desktop.sidebar.drafter_table import shrink
from desktop.theme import colors_of

# A sign and a word each, so that no verdict hangs on a colour.
VERDICTS = {"fits": "✓ Fits", "tight": "◐ Tight", "too large": "✕ Too large", "unknown": "? Not known"}
CANNOT = "– Cannot be used"
ROW_ROOM = 8  # pixels around the text of a row


def count_text(count: int) -> str:
    """A number of downloads, short: 1.2 M, 34 k, 512."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return str(count)


def time_text(seconds: float) -> str:
    """How long something takes still, roughly."""
    if seconds < 60:
        return "less than a minute left"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} minute{'' if minutes == 1 else 's'} left"
    return f"about {minutes / 60:.0f} hours left"


class Words(QLabel):
    """Plain text that wraps; trouble is in its colour, which follows the scheme."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self._wrong = False
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def say(self, text: str, wrong: bool = False) -> None:
        """Show a sentence; an empty one hides the label."""
        self.setText(text)
        self.setVisible(bool(text))
        self._wrong = wrong
        self._tint()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._tint()

    def _tint(self) -> None:
        palette, role = QPalette(), QPalette.ColorRole.WindowText
        if self._wrong:
            palette.setColor(role, colors_of(self).danger)
        if self._wrong != self.testAttribute(Qt.WidgetAttribute.WA_SetPalette) or (
            self._wrong and self.palette().color(role) != palette.color(role)
        ):
            self.setPalette(palette)


def label(text: str = "", small: bool = False, bold: bool = False, select: bool = False) -> Words:
    """A label of plain text that wraps."""
    made = Words(text)
    if select:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if small:
        shrink(made, 0.9)
    if bold:
        font = made.font()
        font.setBold(True)
        made.setFont(font)
    return made


def say(where: Words, text: str, wrong: bool = False) -> None:
    """Put a sentence into a label."""
    where.say(text, wrong)


def row_item(table: QTreeWidget, cells: Sequence[str], right: Sequence[int]) -> QTreeWidgetItem:
    """A row of a table with room around its text; columns `right` are figures."""
    item = QTreeWidgetItem(list(cells))
    item.setSizeHint(0, QSize(0, table.fontMetrics().height() + ROW_ROOM))
    for column in right:
        item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    table.addTopLevelItem(item)
    return item


def table_of(columns: Sequence[str], name: str, right: Sequence[int]) -> QTreeWidget:
    """A table whose first column takes the room that is left."""
    table = QTreeWidget()
    table.setAccessibleName(name)
    table.setRootIsDecorated(False)
    table.setUniformRowHeights(True)
    table.setAlternatingRowColors(True)
    table.setHeaderLabels(list(columns))
    table.setTextElideMode(Qt.TextElideMode.ElideLeft)
    header = table.header()
    header.setStretchLastSection(False)
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    for column in right:
        table.headerItem().setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return table
