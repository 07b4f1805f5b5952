"""Wires the settings of the open chat: their window, the line over the chat, the presets; and the list of shortcuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt

from desktop.color_scheme import inherit_scheme
from desktop.dialogs.preset_bar import PresetBar
from desktop.dialogs.settings import SettingsDialog
from desktop.dialogs.shortcuts import ShortcutsDialog
from desktop.presets import Presets
from desktop.settings import DRAFTERS, PER_CHAT
from desktop.store import ChatRow

if TYPE_CHECKING:
    from desktop.window import MainWindow


class PresetDesk(QObject):
    """The part of the window that is about what a chat has of its own."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window, self._values, self._menus = window, window.conversation.own, window.menus
        self.presets = Presets(window.settings.path.with_name("presets.json"))
        self.dialog: SettingsDialog | None = None
        self.bar: PresetBar | None = None
        self._menus.chosen = self._values.get
        self._menus.chat_settings.triggered.connect(lambda: self.open())
        self._menus.shortcuts.triggered.connect(lambda: self.show_shortcuts())
        window.own.opened.connect(self.open)
        self._values.changed.connect(self._changed)
        self._values.named.connect(self._summarize)
        window.conversation.chat_opened.connect(self._opened)

    def open(self) -> SettingsDialog:
        """Show the settings of the open chat; the window follows when another one is opened."""
        if self.dialog is None:
            self.bar = PresetBar(self._values, self.presets)
            self.dialog = SettingsDialog(self._values, self._window, PER_CHAT, self.bar)
            inherit_scheme(self.dialog)
        self._name()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()
        return self.dialog

    def show_shortcuts(self) -> ShortcutsDialog:
        """List the keyboard shortcuts."""
        dialog = ShortcutsDialog(self._window.menuBar(), self._window)
        inherit_scheme(dialog)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.show()
        return dialog

    def _summarize(self) -> None:
        self._window.own.show_words(self._values.summary())

    def _changed(self, setting: object) -> None:
        self._summarize()
        if setting is DRAFTERS:
            self._menus.set_drafters(self._values.get(DRAFTERS))

    def _opened(self, _chat: ChatRow, _rows: object) -> None:
        self._window.own.show_words(self._values.summary())
        self._name()
        if self.bar is not None:
            self.bar.refresh()

    def _name(self) -> None:
        if self.dialog is not None:
            chat = self._window.conversation.chat
            title = chat.title if chat is not None and chat.title else "New chat"
            self.dialog.setWindowTitle(f"Settings of “{title}”")
