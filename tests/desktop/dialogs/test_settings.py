"""The settings window: every setting has a row, and what is typed there is what the settings hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QLineEdit, QPlainTextEdit, QRadioButton
from pytestqt.qtbot import QtBot

from desktop.dialogs.settings import SettingsDialog, group_of
from desktop.settings import (
    COLOR_SCHEME,
    DRAFTERS,
    RULE,
    SEED,
    SETTINGS,
    SHOW_DRAFTS,
    STOP,
    SYSTEM_PROMPT,
    TEMPERATURE,
    TOP_K,
    Setting,
    Settings,
)

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "settings.json")


@pytest.fixture
def dialog(settings: Settings, qtbot: QtBot) -> SettingsDialog:
    dialog = SettingsDialog(settings)
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def type_into(qtbot: QtBot, line: QLineEdit, text: str) -> None:
    line.selectAll()
    qtbot.keyClick(line, Qt.Key.Key_Delete)
    qtbot.keyClicks(line, text)
    qtbot.keyClick(line, Qt.Key.Key_Return)


def test_every_setting_has_a_row_in_a_named_group(dialog: SettingsDialog) -> None:
    shown = [s for s in SETTINGS if s.namespace == "setting"]
    assert list(dialog.rows) == [s.key for s in shown]
    assert all(group_of(s) != "Other" for s in shown)
    assert group_of(Setting("new_thing", 1, int)) == "Other"


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.namespace == "setting"], ids=lambda s: s.key)
def test_editors_give_back_what_they_are_given(dialog: SettingsDialog, setting: Setting[object]) -> None:
    editor = dialog.rows[setting.key].editor
    editor.set_value(setting.default)
    assert editor.value() == setting.default
    assert editor.words(setting.default)


def test_a_number_is_stored_at_once_and_reset(dialog: SettingsDialog, settings: Settings, qtbot: QtBot) -> None:
    row = dialog.rows[TEMPERATURE.key]
    assert row.reset.isHidden()
    line = row.editor.widget
    assert isinstance(line, QLineEdit)
    type_into(qtbot, line, "0.25")
    assert settings.get(TEMPERATURE) == 0.25
    assert not row.reset.isHidden()
    row.reset.click()
    assert settings.get(TEMPERATURE) == TEMPERATURE.default
    assert line.text() == "0.7"


def test_out_of_range_is_told_and_not_stored(dialog: SettingsDialog, settings: Settings, qtbot: QtBot) -> None:
    row = dialog.rows[TEMPERATURE.key]
    line = row.editor.widget
    assert isinstance(line, QLineEdit)
    type_into(qtbot, line, "99")
    assert settings.get(TEMPERATURE) == TEMPERATURE.default
    assert "cannot be 99" in row._note.text()
    type_into(qtbot, line, "1")
    assert row._note.text() == f"{TEMPERATURE.long} Default: 0.7."  # it is another now
    type_into(qtbot, line, "hot")
    assert line.text() == "1"


def test_an_optional_number_can_be_empty(dialog: SettingsDialog, settings: Settings, qtbot: QtBot) -> None:
    line = dialog.rows[SEED.key].editor.widget
    assert isinstance(line, QLineEdit)
    type_into(qtbot, line, "12")
    assert settings.get(SEED) == 12
    type_into(qtbot, line, "")
    assert settings.get(SEED) is None


def test_ticks_choices_and_texts(dialog: SettingsDialog, settings: Settings) -> None:
    tick = dialog.rows[SHOW_DRAFTS.key].editor.widget
    assert isinstance(tick, QCheckBox)
    tick.click()
    assert settings.get(SHOW_DRAFTS) is False
    rules = dialog.rows[RULE.key].editor.widget.findChildren(QRadioButton)
    rules[1].click()
    assert settings.get(RULE) == "rejection"
    boxes = dialog.rows[DRAFTERS.key].editor.widget.findChildren(QCheckBox)
    boxes[1].click()
    assert settings.get(DRAFTERS) == tuple(n for n in DRAFTERS.default if n != "lookup")
    stop = dialog.rows[STOP.key].editor.widget
    assert isinstance(stop, QPlainTextEdit)
    stop.setPlainText("END\n###\n")
    prompt = dialog.rows[SYSTEM_PROMPT.key].editor.widget
    assert isinstance(prompt, QPlainTextEdit)
    prompt.setPlainText("Be brief.\nBe kind.")
    dialog.close()  # leaving the field stores it, closing too
    assert settings.get(STOP) == ("END", "###")
    assert settings.get(SYSTEM_PROMPT) == "Be brief.\nBe kind."


def test_changes_from_elsewhere_show(dialog: SettingsDialog, settings: Settings) -> None:
    settings.set(COLOR_SCHEME, "dark")
    assert dialog.rows[COLOR_SCHEME.key].editor.value() == "dark"
    settings.set(TOP_K, 40)
    assert dialog.rows[TOP_K.key].editor.value() == 40
    settings.set(DRAFTERS, ("lookup", "suffix"))
    assert dialog.rows[DRAFTERS.key].editor.value() == ("suffix", "lookup")


def test_search(dialog: SettingsDialog) -> None:
    dialog.search.setText("TEMPERATURE")
    assert [k for k, r in dialog.rows.items() if r.isVisible()] == [TEMPERATURE.key]
    assert [t for t, b in dialog.groups.items() if b.isVisible()] == ["Sampling"]
    dialog.search.setText("no such words")
    assert dialog._nothing.isVisible()
    dialog.search.setText("")
    assert all(r.isVisible() for r in dialog.rows.values())


def test_a_group_can_be_gone_to(dialog: SettingsDialog) -> None:
    dialog.show_group("Sampling")
    assert dialog._scroll.verticalScrollBar().value() > 0
    dialog.show_group("No such group")
