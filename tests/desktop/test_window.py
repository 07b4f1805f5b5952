"""The whole window with a process that plays the engine: a person types, reads, switches, closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from desktop.conversation import Conversation
from desktop.dialogs.empty_state import SAMPLES
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.settings import DRAFTERS, MODEL, SHOW_REJECTED, SHOW_SIDEBAR, WINDOW_GEOMETRY, Settings
from desktop.store import Store
from desktop.window import MainWindow
from tests.desktop import window_engine

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
WAIT_MS = 15_000
Opener = Callable[[], MainWindow]


@pytest.fixture
def open_window(qtbot: QtBot, tmp_path: Path) -> Iterator[Opener]:
    """Opens the window on the same files each time; all processes are ended afterwards."""
    opened: list[tuple[MainWindow, Conversation, Store]] = []

    def make() -> MainWindow:
        settings = Settings(tmp_path / "settings.json")
        store = Store(tmp_path / "chats.db")
        conversation = Conversation(store, settings, EngineClient(window_engine.main))
        window = MainWindow(conversation, settings, store)
        opened.append((window, conversation, store))
        qtbot.addWidget(window)
        window.show()
        conversation.start()
        return window

    yield make
    for window, conversation, store in opened:
        window.close()
        conversation.close()
        store.close()


def until(qtbot: QtBot, window: MainWindow, *states: EngineState) -> None:
    qtbot.waitUntil(lambda: window._conversation.state in states, timeout=WAIT_MS)


def say(window: MainWindow, text: str) -> None:
    window.composer.set_text(text)
    window.composer.submit()


def texts(window: MainWindow) -> list[str]:
    chat = window._conversation.chat
    assert chat is not None
    return [row.text for row in window._store.messages(chat.id)]


REPLY = " one two four" * 4


def test_a_conversation(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    assert window._pages.currentWidget() is window.empty
    until(qtbot, window, EngineState.IDLE)
    say(window, "Hello there")
    qtbot.waitUntil(lambda: len(texts(window)) == 2, timeout=WAIT_MS)
    until(qtbot, window, EngineState.IDLE)
    assert window._pages.currentWidget() is window.transcript
    assert window.windowTitle() == "Hello there"
    assert texts(window) == ["Hello there", REPLY]
    assert window.composer.text() == ""
    assert len(window.sidebar.rounds_view.rounds()) == 4
    window.sidebar.refresh()
    assert window.sidebar._ratio.text() == "1.8× plain"
    assert not window.menus.drafter_actions["model"].isEnabled()
    assert window.menus.regenerate.isEnabled()
    window.menus.regenerate.trigger()
    until(qtbot, window, EngineState.IDLE)
    assert texts(window) == ["Hello there", REPLY]
    window.grab()


def test_smallest_size_clips_nothing(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    window.resize(900, 600)
    assert (window.width(), window.height()) == (900, 600)
    assert window.minimumSizeHint().width() <= 900
    assert window.minimumSizeHint().height() <= 600
    assert window.sidebar.width() >= window.sidebar.minimumSizeHint().width()


def test_stop(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "slow")
    until(qtbot, window, EngineState.GENERATING)
    assert window.menus.stop.isEnabled()
    window.menus.stop.trigger()
    until(qtbot, window, EngineState.IDLE)
    assert texts(window)[1].startswith(" one two four")


def test_a_drafter_is_switched_in_mid_reply(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "slow")
    until(qtbot, window, EngineState.GENERATING)
    qtbot.waitUntil(lambda: window.sidebar.stats.clock > 0, timeout=WAIT_MS)
    window.menus.drafter_actions["lookup"].trigger()
    assert "lookup" not in window._settings.get(DRAFTERS)
    assert [m.text for m in window.sidebar.stats.marks] == ["Prompt lookup off"]
    window.menus.stop.trigger()
    until(qtbot, window, EngineState.IDLE)


def test_the_engine_dies_and_comes_back(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "die")
    until(qtbot, window, EngineState.DEAD)
    assert window.problems.text()
    assert window.problems._button.text() == "Restart Engine"
    assert window.sidebar._restart.isVisible()
    assert texts(window) == ["die", " one two four" * 2]
    window.problems._button.click()
    until(qtbot, window, EngineState.IDLE)
    say(window, "again")
    qtbot.waitUntil(lambda: len(texts(window)) == 4, timeout=WAIT_MS)
    until(qtbot, window, EngineState.IDLE)
    assert texts(window)[3] == REPLY


def test_a_failure_is_one_sentence_with_its_remedy(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "fail")
    qtbot.waitUntil(lambda: bool(window.problems.text()), timeout=WAIT_MS)
    assert window.problems.text() == "The prompt is longer than the context. Shorten it."
    until(qtbot, window, EngineState.IDLE)


def test_a_model_that_does_not_load_leads_to_the_picker(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    window._load("bad", "")
    qtbot.waitUntil(lambda: bool(window.problems.text()), timeout=WAIT_MS)
    until(qtbot, window, EngineState.NO_MODEL)
    assert window.problems._button.text() == "Choose Model…"
    assert window._settings.get(MODEL) == "bad"


def test_typing_is_kept_by_chat_and_over_a_restart(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "first")
    qtbot.waitUntil(lambda: len(texts(window)) == 2, timeout=WAIT_MS)
    until(qtbot, window, EngineState.IDLE)
    first = window._conversation.chat
    assert first is not None
    window.composer.set_text("half a thought")
    window.menus.new_chat.trigger()
    assert window.composer.text() == ""
    window.composer.set_text("another one")
    window._conversation.open_chat(first.id)
    assert window.composer.text() == "half a thought"
    window.composer.set_text("half a thought more")
    window.close()
    window._store.close()
    again = open_window()
    assert again.composer.text() == "half a thought more"
    assert texts(again)[0] == "first"


def test_closing_in_mid_reply_keeps_it_and_leaves_no_process(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "slow")
    until(qtbot, window, EngineState.GENERATING)
    client = window._conversation._client
    window.close()
    assert not client.alive
    assert texts(window)[1].startswith(" one two four")
    assert window._settings.get(WINDOW_GEOMETRY)


def test_samples_fill_the_composer(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    window.empty.findChildren(QPushButton)[1].click()
    assert window.composer.text() == SAMPLES[1][1]
    until(qtbot, window, EngineState.IDLE)


def test_deleting_can_be_taken_back(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "first")
    qtbot.waitUntil(lambda: len(texts(window)) == 2, timeout=WAIT_MS)
    until(qtbot, window, EngineState.IDLE)
    window.menus.delete_chat.trigger()
    assert window.notice.text() == "Chat deleted."
    assert texts(window) == []
    assert window._pages.currentWidget() is window.empty
    window.notice.button.click()
    assert texts(window)[0] == "first"
    assert window._pages.currentWidget() is window.transcript
    assert window.notice.text() == ""


def test_view_switches(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    window.menus.show_sidebar.trigger()
    assert not window.sidebar.isVisible()
    window.menus.show_rejected.trigger()
    assert window._settings.get(SHOW_REJECTED) is False
    window._settings.set(SHOW_SIDEBAR, True)
    assert window.sidebar.isVisible()
    for scheme in ("dark", "light", "system"):
        next(a for a, _, v in window.menus._choices if v == scheme).trigger()
        window.grab()
    dialog = window.open_settings("Sampling")
    dialog.close()
    window.menus.help.trigger()
    window.menus.about.trigger()
    until(qtbot, window, EngineState.IDLE)


def test_a_drafter_is_made_of_the_model_that_is_loaded(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    assert not window.menus.make_drafter.isEnabled()
    until(qtbot, window, EngineState.IDLE)
    window.menus.make_drafter.trigger()
    dialog = window.maker.dialog
    assert dialog is not None
    assert dialog.isVisible()
    assert dialog.model_name.text() == "Tiny"
    assert dialog.start_button.isEnabled()
    qtbot.waitUntil(lambda: "no model" in dialog.status.text())  # the fake engine's is in no folder
