"""The menu bar: every action with its text, shortcut, explicit menu role and tooltip.

Makes actions and keeps their ticks in step with the settings; the window connects what they do. Every action
gets a role: left to itself, Qt on macOS moves any action whose text begins with Settings, Options or Setup into
the application menu.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QSignalBlocker, Signal
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QMenuBar

from desktop.settings import (
    COLOR_SCHEME,
    DRAFTERS,
    RULE,
    SHOW_DRAFTS,
    SHOW_REJECTED,
    SHOW_SIDEBAR,
    Setting,
    Settings,
)
from desktop.theme import drafter_order, drafter_title
from mlx_spec.events import ModelInfo

if TYPE_CHECKING:
    from desktop.store import ChatRow

Role = QAction.MenuRole
Key = QKeySequence.StandardKey

SCHEMES = (("system", "As the System"), ("light", "Light"), ("dark", "Dark"))
RULES = {
    "match": "Match: Same Text as Without Drafts",
    "rejection": "Rejection: Same Chances, Other Text",
    "block": "Block: Same Chances, More Drafts Hold",
}
HINTS = {
    "suffix": "Proposes what followed the longest earlier copy of these words in this chat; costs nothing",
    "history": "Proposes what the model wrote in earlier chats after the same words; costs nothing",
    "lookup": "Proposes what followed the same words earlier in this chat; costs nothing",
    "model": "A small model with the same vocabulary writes ahead",
    "layer_skip": "The model writes ahead with some of its own layers left out",
    "mtp": "The heads that the model's makers trained along with it",
    "eagle3": "A small head made for this model goes on from its hidden states",
    "eagle": "A small head of the first EAGLE goes on from the model's hidden states",
    "dflash": "A small network made for this model fills in a whole block at once",
    "medusa": "Heads made for this model each guess one of the next words",
}
MAKE = "Models > Make a Drafter for This Model makes one"
# Why a drafter that the engine does not speak of cannot run.
NOT_FOUND = {
    "model": "no draft model is chosen",
    "mtp": "the model's files have no multi-token heads",
    "eagle3": f"no EAGLE-3 head for this model was found; {MAKE}",
    "eagle": "no head of the first EAGLE for this model was found",
    "dflash": "no DFlash drafter for this model was found",
    "medusa": f"no Medusa heads for this model were found; {MAKE.replace('one', 'some')}",
}


class Menus(QObject):
    """All menus of the main window."""

    drafter_toggled = Signal(str, bool)

    def __init__(self, bar: QMenuBar, settings: Settings, mac: bool | None = None) -> None:
        super().__init__(bar)
        self._bar = bar
        self._settings = settings
        self._mac = sys.platform == "darwin" if mac is None else mac
        self._info: ModelInfo | None = None
        self._ticks: list[tuple[QAction, Setting[bool]]] = []
        self._choices: list[tuple[QAction, Setting[str], str]] = []
        self.drafter_actions: dict[str, QAction] = {}
        self.chosen: Callable[[Setting[Any]], Any] = settings.get  # reads what holds in the open chat
        self._make_actions()
        self._fill()
        self.set_drafters(settings.get(DRAFTERS))
        self.set_generating(False)
        settings.changed.connect(self._setting_changed)

    # ------------------------------------------------------------------------------------------- actions

    def _action(
        self,
        text: str,
        keys: QKeySequence.StandardKey | str | None = None,
        tip: str = "",
        role: QAction.MenuRole = Role.NoRole,
    ) -> QAction:
        action = QAction(text, self)
        action.setMenuRole(role)
        if keys is not None:
            action.setShortcut(QKeySequence(keys))
        if tip:
            action.setToolTip(tip)
            action.setStatusTip(tip)
        return action

    def _make_actions(self) -> None:
        make = self._action
        self.about = make("About Outrider", role=Role.AboutRole)
        self.preferences = make("Settings…", "Ctrl+,", role=Role.PreferencesRole)
        self.quit = make("Quit Outrider", Key.Quit, role=Role.QuitRole)
        if self.quit.shortcut().isEmpty():  # some platforms have no standard key for it
            self.quit.setShortcut(QKeySequence("Ctrl+Q"))
        self.new_chat = make("New Chat", Key.New)
        self.new_incognito = make(
            "New Incognito Chat", "Ctrl+Shift+N", "Kept in memory only, and gone when the app ends"
        )
        self.attach = make("Attach Files…", "Ctrl+Shift+A", "Text, code, Markdown, CSV or PDF, into the next message")
        self.export_chat = make("Export Chat…", "Ctrl+Shift+E", "As Markdown, HTML with its colours, or complete JSON")
        self.export_all = make("Export All…", tip="All chats in one file, incognito ones left out")
        self.import_chats = make(
            "Import…", tip="Chats of Outrider, ChatGPT or LM Studio; files can be dropped on the list"
        )
        self.rename_chat = make("Rename", "F2", "Type another title in its place")
        self.pin_chat = make("Pin", "Ctrl+Alt+P", "Keep it on top of the list")
        self.new_folder = make("New Folder", tip="An empty folder in the list of chats")
        self.duplicate_chat = make("Duplicate", "Ctrl+Shift+K", "A copy with all its branches")
        self.delete_chat = make("Delete Chat", "Ctrl+Shift+Backspace", "It can be brought back for thirty days")
        self.deleted_chats = make("Recently Deleted…", tip="Bring chats back, or delete them for good")
        self.find = make("Find in Chats", Key.Find, "Search titles and text")
        self.find_next = make("Find Next", "Ctrl+G", "The next place in the open chat")
        self.find_previous = make("Find Previous", "Ctrl+Shift+G", "The place before, in the open chat")
        self.close_window = make("Close Window", "Ctrl+W")
        self.stop = make("Stop", "Ctrl+.", "Stop the reply; what came stays")
        self.regenerate = make("Regenerate Reply", "Ctrl+R", "Answer the last question again")
        self.go_on = make("Continue Reply", "Ctrl+Shift+Return", "Write on where a reply was stopped or cut off")
        self.previous_branch = make("Previous Branch", "Ctrl+[", "What stood here before: another try, another wording")
        self.next_branch = make("Next Branch", "Ctrl+]", "The try or the wording that came after this one")
        self.edit_message = make("Edit Message", "Ctrl+E", "Say it differently, or change the reply; both are kept")
        self.copy_reply = make("Copy Reply", "Ctrl+Shift+C", "As plain text: what is read, without marks")
        self.copy_markdown = make("Copy Reply as Markdown", "Ctrl+Alt+C", "As it was written, with its marks")
        self.quote = make("Quote", "Ctrl+Shift+Y", "What is selected, or the last reply, into the message field")
        self.race = make("Race…", "Ctrl+Shift+P", "One prompt plain and with drafts: the same text, two clocks")
        self.choose_model = make("Choose Model…", "Ctrl+Shift+M", "Pick the model and its draft model")
        self.browse_models = make(
            "Browse Models…", "Ctrl+Shift+B", "Search the hub, downloads, and what is on this disk"
        )
        self.make_drafter = make(
            "Make a Drafter for This Model…", tip="Train a small head that guesses this model's words, on this machine"
        )
        self.make_drafter.setEnabled(False)
        self.restart = make("Restart Engine", tip="End the engine process and start it again; chats are kept")
        self.sampling = make("Sampling…", tip="Temperature, top-p, penalties, seed, stop strings")
        self.chat_settings = make("Settings of This Chat…", "Ctrl+Shift+,", "System prompt, sampling and presets")
        self.shortcuts = make("Keyboard Shortcuts", "Ctrl+/", "Every command that has a key")
        self.help = make("How Drafting Works", Key.HelpContents, "What the colours and the figures mean")
        self.edit_actions = {
            "undo": make("Undo", Key.Undo),
            "redo": make("Redo", Key.Redo),
            "cut": make("Cut", Key.Cut),
            "copy": make("Copy", Key.Copy),
            "paste": make("Paste", Key.Paste),
            "selectAll": make("Select All", Key.SelectAll),
        }
        for method, action in self.edit_actions.items():
            action.triggered.connect(_on_focus(method))
        self.show_drafts = self._tick(
            "Draft Colours", SHOW_DRAFTS, "Ctrl+Shift+D", "Tint the tokens that a drafter proposed"
        )
        self.show_rejected = self._tick(
            "Rejected Drafts", SHOW_REJECTED, "Ctrl+Shift+R", "Show struck through what did not hold"
        )
        self.tokens = make("Tokens of the Reply…", "Ctrl+Shift+T", "The last reply pass by pass, and a replay of it")
        self.show_sidebar = self._tick("Sidebar", SHOW_SIDEBAR, "Ctrl+Alt+S", "Rates, drafters and rounds")

    def _tick(self, text: str, setting: Setting[bool], keys: str, tip: str) -> QAction:
        action = self._action(text, keys, tip)
        action.setCheckable(True)
        action.setChecked(self._settings.get(setting))
        action.toggled.connect(lambda on: self._settings.set(setting, on))
        self._ticks.append((action, setting))
        return action

    def _choice(self, group: QActionGroup, text: str, setting: Setting[str], value: str, tip: str) -> QAction:
        action = self._action(text, tip=tip)
        action.setCheckable(True)
        action.setChecked(self._settings.get(setting) == value)
        action.triggered.connect(lambda: self._settings.set(setting, value))
        group.addAction(action)
        self._choices.append((action, setting, value))
        return action

    # --------------------------------------------------------------------------------------------- menus

    def _menu(self, title: str, parts: Sequence[QAction | QMenu | None]) -> QMenu:
        menu = QMenu(title, self._bar)
        menu.setToolTipsVisible(True)
        for part in parts:
            if part is None:
                menu.addSeparator()
            elif isinstance(part, QMenu):
                menu.addMenu(part)
                part.menuAction().setMenuRole(Role.NoRole)
            else:
                menu.addAction(part)
        menu.menuAction().setMenuRole(Role.NoRole)
        for action in menu.actions():
            if action.isSeparator():
                action.setMenuRole(Role.NoRole)
        return menu

    def _fill(self) -> None:
        schemes = QActionGroup(self)
        appearance = self._menu("Appearance", [self._choice(schemes, t, COLOR_SCHEME, v, "") for v, t in SCHEMES])
        edit = self.edit_actions
        file_end: list[QAction | QMenu | None] = [None, self.quit] if self._mac else []
        help_end: list[QAction | QMenu | None] = [None, self.about] if self._mac else []
        self.settings_menu = self._menu("Settings", [])
        self.move_menu = self._menu("Move to Folder", [])
        menus = [
            self._menu(
                "File",
                [
                    self.new_chat,
                    self.new_incognito,
                    self.new_folder,
                    None,
                    self.attach,
                    None,
                    self.export_chat,
                    self.export_all,
                    self.import_chats,
                    None,
                    self.deleted_chats,
                    None,
                    self.close_window,
                    *file_end,
                ],
            ),
            self._menu(
                "Edit",
                [
                    edit["undo"],
                    edit["redo"],
                    None,
                    edit["cut"],
                    edit["copy"],
                    edit["paste"],
                    None,
                    edit["selectAll"],
                    None,
                    self.find,
                    self.find_next,
                    self.find_previous,
                ],
            ),
            self._menu(
                "View",
                [self.show_drafts, self.show_rejected, self.tokens, None, self.show_sidebar, None, appearance],
            ),
            self._menu("Chat", [*self._about_chat(), None, *self._about_turns(), None, self.chat_settings, self.race]),
            self._menu("Models", [self.choose_model, self.browse_models, self.make_drafter, None, self.restart]),
            self.settings_menu,
            self._menu("Help", [self.help, self.shortcuts, *help_end]),
        ]
        if not self._mac:
            # macOS has an application menu of its own, into which the roles move these three.
            menus.insert(0, self._menu("Outrider", [self.about, None, self.preferences, None, self.quit]))
        for menu in menus:
            self._bar.addMenu(menu)
        rules = QActionGroup(self)
        self.rule_menu = self._menu(
            "Accept Rule",
            [
                self._choice(rules, RULES[value], RULE, value, tip)
                for value, tip in zip(RULE.choices, RULE.explained, strict=True)
            ],
        )

    def _about_chat(self) -> list[QAction | QMenu | None]:
        """What is done with the chat as a whole."""
        return [self.rename_chat, self.pin_chat, self.move_menu, self.duplicate_chat, None, self.delete_chat]

    def _about_turns(self) -> list[QAction | QMenu | None]:
        """What is done with single messages."""
        running = [self.stop, self.regenerate, self.go_on, None, self.edit_message, self.quote]
        return [*running, self.copy_reply, self.copy_markdown, None, self.previous_branch, self.next_branch]

    def _fill_settings_menu(self) -> None:
        menu = self.settings_menu
        menu.clear()
        for action in self.drafter_actions.values():
            menu.addAction(action)
        menu.addSeparator().setMenuRole(Role.NoRole)
        menu.addMenu(self.rule_menu)
        menu.addSeparator().setMenuRole(Role.NoRole)
        menu.addAction(self.chat_settings)
        menu.addAction(self.sampling)
        menu.addAction(self.preferences)

    # -------------------------------------------------------------------------------------- what is now

    def set_model(self, info: ModelInfo) -> None:
        """Offer the drafters of this model; those that it cannot use are shown with the reason."""
        self._info = info
        self.make_drafter.setEnabled(True)
        self.set_drafters(self.chosen(DRAFTERS))

    def set_drafters(self, on: Sequence[str]) -> None:
        """Tick the drafters that are on."""
        info = self._info
        if info:
            reasons = {n: r for n, r in (NOT_FOUND | dict(info.refused)).items() if n not in info.drafters}
            names = list(drafter_order(info.drafters)) + list(drafter_order(tuple(reasons)))
        else:
            reasons = {}
            names = list(drafter_order(tuple({*DRAFTERS.default, *on})))
        if names != list(self.drafter_actions):
            for action in self.drafter_actions.values():
                action.deleteLater()
            self.drafter_actions = {name: self._drafter_action(name, i) for i, name in enumerate(names, start=1)}
            self._fill_settings_menu()
        for name, action in self.drafter_actions.items():
            reason = reasons.get(name)
            with QSignalBlocker(action):
                action.setChecked(name in on)
            # A blocked action does not tell its menu; the tick itself is read when the menu is drawn.
            action.setEnabled(reason is None)
            action.setToolTip(reason or HINTS.get(name, "Takes effect from the next round"))

    def _drafter_action(self, name: str, number: int) -> QAction:
        keys = f"Ctrl+Alt+{number}" if number <= 9 else None
        action = self._action(drafter_title(name), keys)
        action.setCheckable(True)
        action.toggled.connect(lambda on: self.drafter_toggled.emit(name, on))
        return action

    def set_chats(self, picked: Sequence[ChatRow], found: bool) -> None:
        """What can be done with these chats, the ones that are selected; `found`: a search is shown in the open one."""
        incognito = any(chat.incognito for chat in picked)
        pinned = bool(picked) and all(chat.pinned for chat in picked)
        several = f" {len(picked):,} Chats" if len(picked) > 1 else ""
        for action in (self.rename_chat, self.duplicate_chat, self.delete_chat, self.export_chat):
            action.setEnabled(bool(picked))
        self.pin_chat.setEnabled(bool(picked) and not incognito)
        self.move_menu.setEnabled(bool(picked) and not incognito)
        self.pin_chat.setText("Unpin" if pinned else "Pin")
        self.delete_chat.setText(f"Delete{several or ' Chat'}")
        self.export_chat.setText(f"Export{several or ' Chat'}…")
        for action in (self.find_next, self.find_previous):
            action.setEnabled(found)

    def set_generating(self, generating: bool, can_regenerate: bool = False) -> None:
        """Stop is for a running reply, regenerate for a finished one."""
        self.stop.setEnabled(generating)
        self.regenerate.setEnabled(can_regenerate and not generating)

    def _setting_changed(self, setting: Setting[Any]) -> None:
        for tick, tick_setting in self._ticks:
            if tick_setting is setting:
                with QSignalBlocker(tick):
                    tick.setChecked(self._settings.get(tick_setting))
        for choice, choice_setting, value in self._choices:
            if choice_setting is setting:
                choice.setChecked(self._settings.get(choice_setting) == value)
        if setting is DRAFTERS:
            self.set_drafters(self.chosen(DRAFTERS))


def _on_focus(method: str) -> Callable[[], None]:
    """A slot that calls `method` of the widget with the keyboard focus, if it has one of that name."""

    def call() -> None:
        slot = getattr(QApplication.focusWidget(), method, None)
        if callable(slot):
            slot()

    return call
