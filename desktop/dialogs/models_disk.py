"""What is on this disk already, wherever it came from: used in place, explained where it cannot be, deleted where it is
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QHBoxLayout,
    QMessageBox,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from desktop.color_scheme import inherit_scheme
from desktop.dialogs.background import Background, problem_text
from desktop.dialogs.models_words import CANNOT, label, row_item, say, table_of
from desktop.sidebar.stats import bytes_text
from models.on_disk import PLACES, OnDisk, on_disk
from models.remove import delete, what_goes

COLUMNS = ("Model", "Size", "Weights", "Where", "State")
_DATA = Qt.ItemDataRole.UserRole


class DiskPage(QWidget):
    """`use_wanted` carries a source, `draft_wanted` too: as the draft model. `changed`: something was deleted."""

    use_wanted = Signal(str)
    draft_wanted = Signal(str)
    changed = Signal()

    def __init__(
        self,
        parent: QWidget | None = None,
        ask: Callable[[], list[OnDisk]] = on_disk,
        in_use: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        super().__init__(parent)
        self._ask, self._in_use = ask, in_use
        self._background = Background(self)
        self._asked = 0
        self.table = table_of(COLUMNS, "Models on this disk", (1,))
        self.about = label(small=True, select=True)
        self.about.setMinimumHeight(self.about.fontMetrics().lineSpacing() * 3)
        self.about.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.about.setAccessibleName("About this model")
        self.use = QPushButton("Use as Model")
        self.draft = QPushButton("Use as Draft Model")
        self.reveal = QPushButton("Show Its Folder")
        self.remove = QPushButton("Delete…")
        row = QHBoxLayout()
        for button in (self.use, self.draft, self.reveal):
            row.addWidget(button)
        row.addStretch(1)
        row.addWidget(self.remove)
        column = QVBoxLayout(self)
        column.addWidget(self.table, 1)
        column.addWidget(self.about)
        column.addLayout(row)
        self.table.itemSelectionChanged.connect(self._picked)
        self.table.itemActivated.connect(lambda *_: self.use.click())
        self.use.clicked.connect(lambda: self._emit(self.use_wanted))
        self.draft.clicked.connect(lambda: self._emit(self.draft_wanted))
        self.reveal.clicked.connect(self._reveal)
        self.remove.clicked.connect(self._ask_delete)
        self.box: QMessageBox | None = None
        self._picked()

    def refresh(self) -> None:
        """Look at the disk anew."""
        self._asked += 1
        number = self._asked
        if not self.table.topLevelItemCount():
            self.about.setText("Looking at this disk…")

        def done(found: list[OnDisk]) -> None:
            if number == self._asked:
                self.show_models(found)

        self._background.run(self._ask, done, lambda error: say(self.about, problem_text(error), True))

    def show_models(self, found: Sequence[OnDisk]) -> None:
        """Fill the table; what was picked stays picked."""
        before = self.picked()
        self.table.clear()
        for one in found:
            state = CANNOT if one.why_not else "✓ Ready" if one.form == "folder" else "✓ Imported at first use"
            cells = [one.title, bytes_text(one.bytes), one.quantization or "–", PLACES[one.place], state]
            item = row_item(self.table, cells, (1,))
            item.setToolTip(0, str(one.path))
            item.setToolTip(4, one.why_not or one.note)
            item.setData(0, _DATA, one)
            if before is not None and one.path == before.path:
                self.table.setCurrentItem(item)
        self._picked()

    def picked(self) -> OnDisk | None:
        """The model that is selected."""
        items = self.table.selectedItems()
        return items[0].data(0, _DATA) if items else None

    def _picked(self) -> None:
        one = self.picked()
        usable = one is not None and not one.why_not
        self.use.setEnabled(usable)
        self.draft.setEnabled(usable)
        self.reveal.setEnabled(one is not None)
        self.remove.setEnabled(one is not None and one.ours)
        self.remove.setToolTip("" if one is None or one.ours else f"It belongs to {PLACES[one.place]}: delete it there")
        if one is None:
            count = self.table.topLevelItemCount()
            text = "Nothing is on this disk yet." if not count else "Models of other programs are used where they are."
            say(self.about, text)
            self.about.show()
            return
        reason = f"It cannot be used. {one.why_not}" if one.why_not else one.note or "It is used where it is."
        say(self.about, f"{one.path}\n{reason}", bool(one.why_not))

    def _emit(self, signal: object) -> None:
        one = self.picked()
        if one is not None:
            signal.emit(one.source)  # type: ignore[attr-defined]

    def _reveal(self) -> None:
        one = self.picked()
        if one is not None:
            folder = one.path if one.path.is_dir() else one.path.parent
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    # --------------------------------------------------------------------------------------------- deleting

    def _ask_delete(self) -> None:
        one = self.picked()
        if one is None:
            return
        if one.source in self._in_use():
            say(self.about, f"{one.title} is loaded. Choose another model first.", True)
            return
        try:
            path = what_goes(one)
        except Exception as error:
            say(self.about, problem_text(error), True)
            return
        box = self.box = QMessageBox(self)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle("Delete Model")
        box.setText(f"Delete {one.title}?")
        shared = " Other programs that use the hub's cache lose it, too." if one.place == "hub" else ""
        box.setInformativeText(f"{bytes_text(one.bytes)} come free. It cannot be brought back.{shared}\n\n{path}")
        yes = box.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        no = box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(no)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        inherit_scheme(box)
        yes.clicked.connect(lambda: self._delete(one))
        box.open()

    def _delete(self, one: OnDisk) -> None:
        def done(size: int) -> None:
            self.table.clearSelection()
            say(self.about, f"{one.title} is deleted; {bytes_text(size)} are free again.")
            self.refresh()
            self.changed.emit()

        self._background.run(lambda: delete(one), done, lambda error: say(self.about, problem_text(error), True))
