"""The settings window, made from the declarations in `desktop.settings`: nothing is listed here a second time.

What is changed applies at once; there is no OK to press. Each setting has its own way back to the default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QGroupBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from desktop.dialogs.editors import Editor, editor_for
from desktop.dialogs.memory_note import MemoryNote
from desktop.own import ChatSettings
from desktop.settings import SETTINGS, Setting, Settings
from desktop.sidebar.drafter_table import shrink
from desktop.theme import colors_of
from mlx_spec.events import Problem

LONGEST_WORDS = 60  # of a default that is named
Values = Settings | ChatSettings


class SettingRow(QWidget):
    """One setting: what it is called, its editor, a way back to the default, and what it does."""

    def __init__(self, setting: Setting[Any], settings: Values, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setting = setting
        self._settings = settings
        self.editor: Editor = editor_for(setting)
        self.editor.widget.setAccessibleName(setting.short)
        self.editor.widget.setAccessibleDescription(setting.long)
        self._name = name = QLabel(setting.short)
        name.setBuddy(self.editor.widget)
        name.setWordWrap(True)
        self.reset = QToolButton()
        self.reset.setText("Reset")
        self.reset.setAutoRaise(True)
        self.reset.setAccessibleName(f"Reset {setting.short}")
        self.reset.clicked.connect(self._reset)
        policy = self.reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(policy)
        self._note = QLabel(setting.long)
        self._note.setWordWrap(True)
        self._note.setTextFormat(Qt.TextFormat.PlainText)
        self._note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._note.setVisible(bool(setting.long))
        shrink(self._note, 0.9)
        row = QHBoxLayout()
        row.addWidget(name, 2, self._top(name))
        row.addWidget(self.editor.widget, 3)
        row.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 2, 0, 6)
        column.setSpacing(1)
        column.addLayout(row)
        column.addWidget(self._note)
        self.editor.changed.connect(lambda: self._store(self.editor.value()))
        self.show_value()

    def show_value(self) -> None:
        """Show what the settings hold now."""
        value, default = self._settings.get(self.setting), self._settings.default(self.setting)
        if self.editor.value() != value:
            self.editor.set_value(value)
        differs = value != default
        self.reset.setVisible(differs)
        self.reset.setToolTip(f"Back to the default: {self.editor.words(default)}")
        font = self._name.font()
        if font.bold() != differs:
            font.setBold(differs)
            self._name.setFont(font)
        self._say()

    def _say(self) -> None:
        """What the setting does and, where it is another one, its default."""
        value, default = self._settings.get(self.setting), self._settings.default(self.setting)
        words = self.editor.words(default)
        where = "In other chats" if isinstance(self._settings, ChatSettings) else "Default"
        differs = f"{where}: {words if len(words) <= LONGEST_WORDS else words[: LONGEST_WORDS - 1] + '…'}."
        self._note.setText(" ".join(part for part in (self.setting.long, differs if value != default else "") if part))
        self._note.setVisible(bool(self._note.text()))
        self._tint(wrong=False)

    def _top(self, name: QLabel) -> Qt.AlignmentFlag:
        """Beside a tall editor the name stands at its top."""
        tall = self.editor.widget.sizeHint().height() > 2 * name.sizeHint().height() + 10
        return Qt.AlignmentFlag.AlignTop if tall else Qt.AlignmentFlag(0)

    def _reset(self) -> None:
        self._store(self._settings.default(self.setting))

    def matches(self, words: list[str]) -> bool:
        """Whether all words occur in the name, the description or the key."""
        setting = self.setting
        choices = " ".join(str(choice) for choice in (*setting.choices, *setting.explained))
        text = f"{setting.short} {setting.long} {setting.key} {choices}".lower()
        return all(word in text for word in words)

    def _store(self, value: object) -> None:
        try:
            self._settings.set(self.setting, value)
        except Problem as problem:
            self._note.setText(f"{problem.message} {problem.remedy}".strip())
            self._tint(wrong=True)
            self._note.show()
            return
        self.show_value()

    def _tint(self, wrong: bool) -> None:
        palette = self.palette()
        if wrong:
            palette.setColor(palette.ColorRole.WindowText, colors_of(self).danger)
        self._note.setPalette(palette)


class SettingsDialog(QDialog):
    """Settings in groups, with a search field: all of them, or some. `head` is put above the search, `memory` says
    what the chosen models need and is asked on a thread of its own."""

    def __init__(
        self,
        settings: Values,
        parent: QWidget | None = None,
        shown: Sequence[Setting[Any]] = SETTINGS,
        head: QWidget | None = None,
        memory: Callable[[], tuple[str, bool]] | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self._settings = settings
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search settings")
        self.search.setAccessibleName("Search settings")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filter)
        self.rows: dict[str, SettingRow] = {}
        self.groups: dict[str, QGroupBox] = {}
        inside = QWidget()
        column = QVBoxLayout(inside)
        for setting in shown:
            if setting.namespace != "setting":
                continue
            title = group_of(setting)
            if title not in self.groups:
                box = QGroupBox(title)
                QVBoxLayout(box).setSpacing(2)
                self.groups[title] = box
                column.addWidget(box)
            row = SettingRow(setting, settings)
            self.rows[setting.key] = row
            layout = self.groups[title].layout()
            assert layout is not None
            layout.addWidget(row)
        self.memory: MemoryNote | None = None
        if memory is not None and "Models" in self.groups:
            self.memory = MemoryNote(settings, memory)
            models = self.groups["Models"].layout()
            assert models is not None
            models.addWidget(self.memory)
        self._nothing = QLabel("No setting has these words in its name or description.")
        self._nothing.hide()
        column.addWidget(self._nothing)
        column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(inside)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        outer = QVBoxLayout(self)
        if head is not None:
            outer.addWidget(head)
        outer.addWidget(self.search)
        outer.addWidget(self._scroll, 1)
        outer.addWidget(buttons)
        settings.changed.connect(self._changed)

    def sizeHint(self) -> QSize:
        return QSize(600, 620)

    def show_group(self, title: str) -> None:
        """Scroll to a group and put the focus into its first setting."""
        box = self.groups.get(title)
        if box is None:
            return
        self.show()
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)  # so that places are known
        self._scroll.verticalScrollBar().setValue(box.y())
        for row in self.rows.values():
            if box.isAncestorOf(row):
                row.editor.widget.setFocus()
                break

    def _changed(self, setting: Setting[Any]) -> None:
        row = self.rows.get(setting.key)
        if row is not None:
            row.show_value()

    def _filter(self, text: str) -> None:
        words = text.lower().split()
        found = 0
        for row in self.rows.values():
            fits = row.matches(words)
            row.setVisible(fits)
            found += fits
        for box in self.groups.values():
            box.setVisible(any(box.isAncestorOf(r) and not r.isHidden() for r in self.rows.values()))
        self._nothing.setVisible(found == 0)


GROUPS = (
    ("Models", ("model", "draft_model", "context", "kv_bits")),
    ("Drafting", ("drafters", "rule", "max_draft", "max_drafts", "keep_replies")),
    (
        "Sampling",
        (
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "seed",
            "max_tokens",
            "stop",
            "system_prompt",
        ),
    ),
    ("Appearance", ("show_drafts", "show_rejected", "show_sidebar", "color_scheme")),
    ("System", ("notify", "announce", "unload_after")),
)


def group_of(setting: Setting[Any]) -> str:
    """The title of the group in which a setting is shown; one that no group names is under Other."""
    last = setting.key.rpartition("/")[2].rpartition(".")[2]
    for title, keys in GROUPS:
        if last in keys:
            return title
    return "Other"
