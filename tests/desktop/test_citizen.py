"""The whole window in its system: files from outside, a reply announced, less motion, a screen that is gone."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop import citizen
from desktop.citizen import Citizen
from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.opened import Opened
from desktop.settings import MODEL, SHOW_REJECTED, Settings
from desktop.store import Store
from desktop.window import MainWindow
from tests.desktop import window_engine

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints", "does not support raise")
WAIT_MS = 15_000


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[MainWindow]:
    settings, store = Settings(tmp_path / "settings.json"), Store(tmp_path / "chats.db")
    conversation = Conversation(store, settings, EngineClient(window_engine.main))
    made = MainWindow(conversation, settings, store)
    qtbot.addWidget(made)
    yield made
    made.close()
    conversation.close()
    store.close()
    gc.collect()  # here, and not in another test's thread


def start(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> tuple[Citizen, Opened]:
    opened = Opened(window)
    made = Citizen(window, opened)
    window.show()
    window.conversation.start()
    qtbot.waitUntil(lambda: window.conversation.state is EngineState.IDLE, timeout=WAIT_MS)
    return made, opened


def test_files_from_outside(window: MainWindow, qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    _, opened = start(window, qtbot, qapp)
    notes, model = tmp_path / "notes.md", tmp_path / "m.gguf"
    notes.write_text("# Notes")
    model.touch()
    opened.add([notes, model])
    qtbot.waitUntil(lambda: bool(window.composer.tray.attachments), timeout=WAIT_MS)
    assert [a.name for a in window.composer.tray.attachments] == ["notes.md"]
    assert window.settings.get(MODEL) == str(model)
    qtbot.waitUntil(lambda: window.conversation.state is EngineState.IDLE, timeout=WAIT_MS)


def test_a_reply_is_announced(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    made, _ = start(window, qtbot, qapp)
    heard: list[str] = []
    made.announcer._listening = lambda: True
    made.announcer._say = lambda _widget, words: heard.append(words)
    window.conversation.send("Hello")
    qtbot.waitUntil(lambda: bool(heard), timeout=WAIT_MS)
    assert heard == ["one two four" + " one two four" * 3 + " The reply is finished."]


def test_less_motion(window: MainWindow, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = start(window, qtbot, qapp)
    assert window.transcript._show_rejected
    monkeypatch.setattr(citizen, "less_motion", lambda: True)
    made.keep_still()
    assert not window.transcript._show_rejected
    window.settings.set(SHOW_REJECTED, False)
    window.settings.set(SHOW_REJECTED, True)
    assert not window.transcript._show_rejected
    monkeypatch.setattr(citizen, "less_motion", lambda: False)
    made.keep_still()
    assert window.transcript._show_rejected


def test_a_window_from_a_screen_that_is_gone(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    window.move(20_000, 20_000)
    start(window, qtbot, qapp)
    assert window.screen().availableGeometry().intersects(window.frameGeometry())
