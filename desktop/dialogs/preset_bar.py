"""Chooses a chat's preset, and keeps presets: saved from the chat, renamed, deleted, imported and exported as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QMenu,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from desktop.color_scheme import inherit_scheme
from desktop.dialogs.editors import StillCombo
from desktop.own import ChatSettings
from desktop.presets import Preset, Presets, read, write
from desktop.theme import colors_of
from mlx_spec.events import Problem

NONE = "No preset: as all chats"
FILTER = "Presets (*.json)"


class PresetBar(QWidget):
    """A list of the presets, Save, and a menu with the rest. What happened is said below, in a line."""

    def __init__(self, values: ChatSettings, presets: Presets) -> None:
        super().__init__()
        self._values, self._presets = values, presets
        self.choice = StillCombo()
        self.choice.setAccessibleName("Preset of this chat")
        self.choice.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.choice.setMinimumContentsLength(12)
        self.choice.activated.connect(self._chosen)
        title = QLabel("&Preset")
        title.setBuddy(self.choice)
        self.save_button = QPushButton("&Save as Preset…")
        self.save_button.setToolTip("Keep what this chat has of its own under a name, for other chats")
        self.save_button.clicked.connect(self._ask_save)
        self.more = QToolButton()
        self.more.setText("More")
        self.more.setAccessibleName("More about presets")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.menu = QMenu(self.more)
        self.rename_action = self.menu.addAction("Rename…", self._ask_rename)
        self.delete_action = self.menu.addAction("Delete", self._delete)
        self.menu.addSeparator()
        self.import_action = self.menu.addAction("Import…", self._ask_import)
        self.export_action = self.menu.addAction("Export This…", lambda: self._ask_export(only=True))
        self.export_all_action = self.menu.addAction("Export All…", lambda: self._ask_export(only=False))
        self.more.setMenu(self.menu)
        self.said = QLabel()
        self.said.setWordWrap(True)
        self.said.setTextFormat(Qt.TextFormat.PlainText)
        self.said.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.said.hide()
        row = QHBoxLayout()
        for part in (title, self.choice, self.save_button, self.more):
            row.addWidget(part, 1 if part is self.choice else 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.said)
        values.changed.connect(lambda _: self.refresh())
        for notice in presets.notices:
            self._say(notice, wrong=True)
        self.refresh()

    def refresh(self) -> None:
        """Show the presets that there are and the one that this chat was given."""
        mine, known = self._values.own.preset, self._presets.get(self._values.own.preset)
        self.choice.clear()
        self.choice.addItem(NONE if not self._values.own.values or mine else "No preset: some of its own", "")
        for preset in self._presets.all():
            changed = preset is known and dict(preset.values) != dict(self._values.own.values)
            self.choice.addItem(f"{preset.name} (changed here)" if changed else preset.name, preset.name)
        if mine and known is None:
            self.choice.addItem(f"{mine} (deleted; kept here)", mine)
        self.choice.setCurrentIndex(max(0, self.choice.findData(mine)))
        self.save_button.setEnabled(bool(self._values.own.values))
        for action in (self.rename_action, self.delete_action, self.export_action):
            action.setEnabled(known is not None)
        self.export_all_action.setEnabled(bool(self._presets.all()))

    def _say(self, words: str, wrong: bool = False) -> None:
        self.said.setText(words)
        self.said.setVisible(bool(words))
        palette, colors = self.palette(), colors_of(self)
        palette.setColor(self.said.foregroundRole(), colors.danger if wrong else colors.text)
        self.said.setPalette(palette)

    def _try(self, act: Callable[[], str]) -> None:
        """Do something and say what was done, or why it was not."""
        try:
            words, wrong = act(), False
        except Problem as problem:
            words, wrong = f"{problem.message} {problem.remedy}".strip(), True
        self.refresh()
        self._say(words, wrong)

    # ----------------------------------------------------------------------------------------- this chat

    def _chosen(self, index: int) -> None:
        name = self.choice.itemData(index) or ""
        preset = self._presets.get(name)

        def act() -> str:
            if not name:
                self._values.use("", {})
            elif preset is not None:
                self._values.use(name, preset.values)
            return ""

        self._try(act)

    # ------------------------------------------------------------------------------------------- presets

    def _ask(self, title: str, label: str, text: str, then: Callable[[str], None]) -> None:
        dialog = QInputDialog(self)
        inherit_scheme(dialog)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(title)
        dialog.setLabelText(label)
        dialog.setTextValue(text)
        dialog.textValueSelected.connect(then)
        dialog.open()

    def _ask_save(self) -> None:
        label = "Name; a preset that has it is replaced"
        self._ask("Save as Preset", label, self._values.own.preset, self.save)

    def save(self, name: str) -> None:
        """Keep what the chat has of its own under a name."""

        def act() -> str:
            preset = self._presets.save(name, self._values.own.values)
            self._values.use(preset.name, preset.values)
            return f"“{preset.name}” is saved."

        self._try(act)

    def _ask_rename(self) -> None:
        self._ask("Rename Preset", "Name", self._values.own.preset, self.rename)

    def rename(self, name: str) -> None:
        """Give the chosen preset another name."""
        own = self._values.own

        def act() -> str:
            new = self._presets.rename(own.preset, name)
            self._values.use(new, own.values)
            return ""

        self._try(act)

    def _delete(self) -> None:
        name = self._values.own.preset

        def act() -> str:
            self._presets.remove(name)
            return f"“{name}” is deleted. Chats that were given it keep what they have."

        self._try(act)

    # --------------------------------------------------------------------------------------------- files

    def _ask_import(self) -> None:
        dialog = QFileDialog(self, "Import Presets")
        inherit_scheme(dialog)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilters([FILTER, "All files (*)"])
        dialog.fileSelected.connect(lambda name: self.import_file(Path(name)))
        dialog.open()

    def import_file(self, path: Path) -> None:
        """Add the presets of a file; all of them, or none and one sentence."""

        def act() -> str:
            names = self._presets.add(read(path))
            if not names:
                return f"{path.name} holds no presets."
            return f"Imported: {', '.join(f'“{name}”' for name in names)}."

        self._try(act)

    def _ask_export(self, only: bool) -> None:
        dialog = QFileDialog(self, "Export Preset" if only else "Export Presets")
        inherit_scheme(dialog)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilters([FILTER])
        dialog.setDefaultSuffix("json")
        name = self._values.own.preset if only else "Outrider presets"
        dialog.selectFile("".join(c if c.isalnum() or c in " -_" else "-" for c in name) + ".json")
        dialog.fileSelected.connect(lambda file: self.export_file(Path(file), only))
        dialog.open()

    def export_file(self, path: Path, only: bool) -> None:
        """Write the chosen preset to a file, or all of them."""
        chosen: Preset | None = self._presets.get(self._values.own.preset)
        presets = ([chosen] if chosen else []) if only else self._presets.all()

        def act() -> str:
            write(presets, path)
            return f"Exported to {path.name}."

        self._try(act)
