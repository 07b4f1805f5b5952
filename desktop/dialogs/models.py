"""The model picker: a target and a draft model, with what the pair check and the memory need say, before loading.

What there is and what fits is asked of `desktop.dialogs.model_facts` on a thread of its own; the dialog stays
usable meanwhile, and an answer to an older question is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from desktop.dialogs.background import Background, problem_text
from desktop.dialogs.model_facts import Assessment, Choice, assess, list_choices
from desktop.theme import colors_of

ASK_AFTER_MS = 300


class Picker(QGroupBox):
    """One model: a list of what is known, and a line for a folder, a GGUF file or a hub id."""

    changed = Signal()

    def __init__(self, title: str, none: str = "", parent: QWidget | None = None) -> None:
        super().__init__(title, parent)
        self._none = none
        self.list = QListWidget()
        self.list.setAccessibleName(title)
        self.list.setSpacing(3)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.line = QLineEdit()
        self.line.setAccessibleName(f"{title}: folder, GGUF file or hub id")
        self.line.setPlaceholderText(none or "Folder, GGUF file or hub id")
        self.line.setClearButtonEnabled(bool(none))
        folder, file = QPushButton("Folder…"), QPushButton("GGUF File…")
        folder.clicked.connect(self._pick_folder)
        file.clicked.connect(self._pick_file)
        row = QHBoxLayout()
        row.addWidget(folder)
        row.addWidget(file)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.addWidget(self.list, 1)
        column.addWidget(self.line)
        column.addLayout(row)
        self.list.itemSelectionChanged.connect(self._list_picked)
        self.line.textChanged.connect(self._line_changed)

    def set_choices(self, choices: Sequence[Choice]) -> None:
        """Fill the list; what the line says stays."""
        self.list.blockSignals(True)
        self.list.clear()
        if self._none:
            choices = (Choice("", self._none, "Prompt lookup still drafts"), *choices)
        for choice in choices:
            item = QListWidgetItem(f"{choice.title}\n{choice.note}" if choice.note else choice.title)
            item.setData(Qt.ItemDataRole.UserRole, choice.source)
            item.setToolTip(choice.source)
            self.list.addItem(item)
        self.list.blockSignals(False)
        self._select(self.source())

    def source(self) -> str:
        """What is picked: a name, a folder, a file or a hub id; "" for none."""
        return self.line.text().strip()

    def set_source(self, source: str) -> None:
        """Pick `source`."""
        self.line.setText(source)
        self._select(source)

    def _select(self, source: str) -> None:
        self.list.blockSignals(True)
        self.list.clearSelection()
        for i in range(self.list.count()):
            if self.list.item(i).data(Qt.ItemDataRole.UserRole) == source:
                self.list.setCurrentRow(i)
                self.list.scrollToItem(self.list.item(i))
        self.list.blockSignals(False)

    def _list_picked(self) -> None:
        items = self.list.selectedItems()
        if items:
            self.line.setText(items[0].data(Qt.ItemDataRole.UserRole))

    def _line_changed(self, text: str) -> None:
        self._select(text.strip())
        self.changed.emit()

    def _pick_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, "Folder with a model")
        if path:
            self.line.setText(path)

    def _pick_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "GGUF file", "", "GGUF (*.gguf)")
        if path:
            self.line.setText(path)


class ModelsDialog(QDialog):
    """Pick a model and a draft model. `chosen` carries both sources; the draft is "" for none."""

    chosen = Signal(str, str)
    browse = Signal()  # look further: on the hub, among downloads, in other programs' folders

    def __init__(
        self,
        model: str,
        draft: str,
        parent: QWidget | None = None,
        choices: Callable[[], list[Choice]] = list_choices,
        check: Callable[[str, str], Assessment] = assess,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Choose Model")
        self._check = check
        self._background = Background(self)
        self._asked = 0
        self.target = Picker("Model")
        self.draft = Picker("Draft model", "No draft model")
        self.verdict = QLabel()
        self.verdict.setWordWrap(True)
        self.verdict.setTextFormat(Qt.TextFormat.PlainText)
        self.verdict.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.verdict.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.verdict.setMinimumHeight(self.verdict.fontMetrics().lineSpacing() * 5)
        self.verdict.setAccessibleName("What the check says")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(ASK_AFTER_MS)
        self._timer.timeout.connect(self._ask)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.load_button = buttons.addButton("Load", QDialogButtonBox.ButtonRole.AcceptRole)
        self.browse_button = buttons.addButton("Find More…", QDialogButtonBox.ButtonRole.ActionRole)
        self.browse_button.setToolTip("Search the hub, and see what is on this disk")
        self.browse_button.clicked.connect(self._browse)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        pickers = QHBoxLayout()
        pickers.addWidget(self.target)
        pickers.addWidget(self.draft)
        column = QVBoxLayout(self)
        column.addLayout(pickers, 1)
        column.addWidget(self.verdict)
        column.addWidget(buttons)
        self.target.set_source(model)
        self.draft.set_source(draft)
        for picker in (self.target, self.draft):
            picker.changed.connect(self._changed)
        self._background.run(choices, self._show_choices, lambda error: self._say(problem_text(error), False))
        self._changed()

    def sizeHint(self) -> QSize:
        return QSize(760, 480)

    def _show_choices(self, choices: list[Choice]) -> None:
        self.target.set_choices(choices)
        self.draft.set_choices(choices)

    def _changed(self) -> None:
        self._asked += 1
        model = self.target.source()
        self.load_button.setEnabled(bool(model))
        self._say("Checking…" if model else "Pick a model, or name a folder, a GGUF file or a hub id.", True)
        if model:
            self._timer.start()

    def _ask(self) -> None:
        number, model, draft = self._asked, self.target.source(), self.draft.source()

        def show(found: Assessment) -> None:
            if number == self._asked:
                self._say("\n".join(found.lines), found.fits)
                self.load_button.setEnabled(found.can_load)

        def fail(error: Exception) -> None:
            if number == self._asked:
                self._say(problem_text(error), False)

        self._background.run(lambda: self._check(model, draft), show, fail)

    def _say(self, text: str, fine: bool) -> None:
        self.verdict.setText(text)
        palette = self.palette()
        if not fine:
            palette.setColor(palette.ColorRole.WindowText, colors_of(self).danger)
        self.verdict.setPalette(palette)

    def _browse(self) -> None:
        self.reject()
        self.browse.emit()

    def _accept(self) -> None:
        model, draft = self.target.source(), self.draft.source()
        self.accept()
        self.chosen.emit(model, draft)
