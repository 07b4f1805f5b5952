"""The menu bar: roles, shortcuts, ticks in step with the settings, drafters built from what the model can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLineEdit, QMainWindow, QMenu
from pytestqt.qtbot import QtBot

from desktop.menus import HINTS, NOT_FOUND, Menus
from desktop.settings import COLOR_SCHEME, DRAFTERS, RULE, SHOW_REJECTED, Settings
from mlx_spec.events import ModelInfo

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")

Role = QAction.MenuRole
INFO = ModelInfo(
    "Starter",
    None,
    "llama",
    135_000_000,
    5.0,
    8192,
    98_000_000,
    ("lookup", "suffix"),
    (("model", "no draft model is loaded"),),
)


@pytest.fixture
def window(qtbot: QtBot) -> QMainWindow:
    window = QMainWindow()
    qtbot.addWidget(window)
    return window


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "settings.json")


def every_action(menu: QMenu) -> Iterator[QAction]:
    for action in menu.actions():
        yield action
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from every_action(inner)


def titles(window: QMainWindow) -> list[str]:
    return [action.text() for action in window.menuBar().actions()]


@pytest.mark.parametrize("mac", [True, False])
def test_every_action_has_an_explicit_role(window: QMainWindow, settings: Settings, mac: bool) -> None:
    menus = Menus(window.menuBar(), settings, mac)
    menus.set_model(INFO)
    special = {menus.about: Role.AboutRole, menus.preferences: Role.PreferencesRole, menus.quit: Role.QuitRole}
    seen = []
    for top in window.menuBar().actions():
        assert top.menuRole() == Role.NoRole
        menu = top.menu()
        assert isinstance(menu, QMenu)
        for action in every_action(menu):
            seen.append(action)
            assert action.menuRole() == special.get(action, Role.NoRole), action.text()
    assert set(special) <= set(seen)


def test_menus_in_order(window: QMainWindow, settings: Settings) -> None:
    Menus(window.menuBar(), settings, mac=False)
    assert titles(window) == ["Outrider", "File", "Edit", "View", "Chat", "Models", "Settings", "Help"]


def test_on_a_mac_the_system_makes_the_first_menu(window: QMainWindow, settings: Settings) -> None:
    Menus(window.menuBar(), settings, mac=True)
    assert titles(window)[0] == "File"
    assert "Settings" in titles(window)


def test_shortcuts_are_there_and_unique(window: QMainWindow, settings: Settings) -> None:
    menus = Menus(window.menuBar(), settings, mac=False)
    assert menus.preferences.shortcut().toString() == "Ctrl+,"
    assert menus.quit.shortcut().toString() == "Ctrl+Q"
    assert menus.stop.shortcut().toString() == "Ctrl+."
    actions = {a for top in window.menuBar().actions() for a in every_action(top.menu())}  # type: ignore[arg-type]
    keys = [a.shortcut().toString() for a in actions if not a.shortcut().isEmpty()]
    assert len(keys) == len(set(keys))


def test_drafters_come_from_the_model(window: QMainWindow, settings: Settings, qtbot: QtBot) -> None:
    menus = Menus(window.menuBar(), settings, mac=False)
    assert list(menus.drafter_actions) == list(DRAFTERS.default)
    menus.set_model(INFO)
    assert list(menus.drafter_actions) == ["suffix", "lookup", "model", "mtp", "eagle3", "eagle", "dflash", "medusa"]
    refused = menus.drafter_actions["model"]
    assert not refused.isEnabled()
    assert refused.toolTip() == "no draft model is loaded"
    assert menus.settings_menu.toolTipsVisible()
    assert menus.drafter_actions["lookup"].isChecked()
    with qtbot.waitSignal(menus.drafter_toggled) as signal:
        menus.drafter_actions["lookup"].trigger()
    assert signal.args == ["lookup", False]


def test_every_kind_has_a_toggle_or_says_why_not(window: QMainWindow, settings: Settings) -> None:
    menus = Menus(window.menuBar(), settings, mac=False)
    heads = ("mtp", "eagle3", "eagle", "dflash", "medusa")
    menus.set_model(replace(INFO, drafters=("lookup", "medusa", "eagle3"), refused=(("mtp", "the files lack them"),)))
    for name in heads:
        action = menus.drafter_actions[name]
        assert action.isEnabled() == (name in ("medusa", "eagle3"))
        assert action.isChecked()  # on by default, as soon as there is one
    assert menus.drafter_actions["mtp"].toolTip() == "the files lack them"
    assert "Make a Drafter" not in menus.drafter_actions["dflash"].toolTip()
    menus.set_model(INFO)
    assert "Make a Drafter" in menus.drafter_actions["eagle3"].toolTip()
    assert not menus.drafter_actions["medusa"].isEnabled()
    assert all(HINTS[name] and NOT_FOUND[name] for name in heads)


def test_ticks_follow_and_set_the_settings(window: QMainWindow, settings: Settings) -> None:
    menus = Menus(window.menuBar(), settings, mac=False)
    assert menus.show_rejected.isChecked() == settings.get(SHOW_REJECTED)
    menus.show_rejected.trigger()
    assert settings.get(SHOW_REJECTED) is False
    settings.set(SHOW_REJECTED, True)
    assert menus.show_rejected.isChecked()
    settings.set(DRAFTERS, ("lookup",))
    assert not menus.drafter_actions["model"].isChecked()


def test_rule_and_appearance_are_choices(window: QMainWindow, settings: Settings) -> None:
    menus = Menus(window.menuBar(), settings, mac=False)
    rules = menus.rule_menu.actions()
    assert [a.isChecked() for a in rules] == [True, False, False]
    rules[1].trigger()
    assert settings.get(RULE) == "rejection"
    assert [a.isChecked() for a in rules] == [False, True, False]
    settings.set(COLOR_SCHEME, "dark")
    ticked = [a.text() for a, s, _ in menus._choices if s is COLOR_SCHEME and a.isChecked()]
    assert ticked == ["Dark"]


def test_edit_goes_to_the_widget_with_the_focus(window: QMainWindow, settings: Settings, qtbot: QtBot) -> None:
    menus = Menus(window.menuBar(), settings, mac=False)
    line = QLineEdit("some text")
    window.setCentralWidget(line)
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    line.setFocus()
    qtbot.waitUntil(line.hasFocus)
    menus.edit_actions["selectAll"].trigger()
    assert line.selectedText() == "some text"
    menus.edit_actions["cut"].trigger()
    assert line.text() == ""


def test_stop_and_regenerate_by_state(window: QMainWindow, settings: Settings) -> None:
    menus = Menus(window.menuBar(), settings, mac=False)
    assert not menus.stop.isEnabled()
    menus.set_generating(True)
    assert menus.stop.isEnabled()
    assert not menus.regenerate.isEnabled()
    menus.set_generating(False, can_regenerate=True)
    assert menus.regenerate.isEnabled()
