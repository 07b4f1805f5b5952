"""The window with files and a context that fills: kept, edited, refused, gone on without the oldest turns."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from desktop.attachments import Attachment, join
from desktop.engine_keeper import EngineState
from tests.desktop.test_window import Opener, open_window, pytestmark, say, texts, until

__all__ = ["open_window", "pytestmark"]
FILE = Attachment("road.md", "The road is good.")


def test_files_stay_with_their_message(open_window: Opener, tmp_path: Path, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    (tmp_path / "road.md").write_text("The road is good.\n")
    window.composer.attach([tmp_path / "road.md"])
    qtbot.waitUntil(lambda: not window.composer.tray.busy)
    window.composer.field.setPlainText("How is it?")
    window.composer.submit()
    qtbot.waitUntil(lambda: len(texts(window)) == 2)
    until(qtbot, window, EngineState.IDLE)
    assert texts(window)[0] == join([FILE], "How is it?")
    assert window.windowTitle() == "How is it?"
    said = window.transcript.views[0]
    assert said.chips.attachments == [FILE]
    assert said.view.toPlainText() == "How is it?"
    said.copy_text()
    said.edit_button.click()
    assert said._editor is not None
    said._editor.field.setPlainText("And now?")
    said._editor._confirm()
    qtbot.waitUntil(lambda: texts(window)[0] == join([FILE], "And now?"))
    until(qtbot, window, EngineState.IDLE)


def test_files_wait_with_what_is_typed(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "first chat")
    until(qtbot, window, EngineState.IDLE)
    first = window._conversation.chat
    assert first is not None
    window.composer.set_text(join([FILE], "not sent yet"))
    window._conversation.new_chat()
    assert window.composer.text() == ""
    assert window.composer.tray.attachments == []
    window._conversation.open_chat(first.id)
    assert window.composer.tray.attachments == [FILE]
    assert window.composer.field.toPlainText() == "not sent yet"


def test_a_message_that_never_fits_is_kept_and_refused(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    long = "word " * 4000
    say(window, long)
    assert "the context holds 2,048" in window.problems.text()
    assert window.problems._button.isHidden()
    assert window.composer.text() == long
    assert texts(window) == []


def test_a_full_chat_goes_on_without_its_oldest_turns(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    until(qtbot, window, EngineState.IDLE)
    say(window, "alpha " * 900)
    qtbot.waitUntil(lambda: len(texts(window)) == 2)
    until(qtbot, window, EngineState.IDLE)
    say(window, "beta " * 900)
    assert window.problems.text().startswith("This chat is full")
    assert window.composer.text() == "beta " * 900
    assert len(texts(window)) == 2
    window.problems._button.click()
    qtbot.waitUntil(lambda: len(texts(window)) == 4)
    until(qtbot, window, EngineState.IDLE)
    assert window.composer.text() == ""
    qtbot.waitUntil(lambda: window.composer.meter.words().startswith("2 oldest messages left out"))
    # An edit that does not fit: what was typed waits in the composer, and the message stays as it was.
    window._conversation.edit(window.transcript.views[-2].row.id, "gamma " * 1400)
    assert window.composer.text() == "gamma " * 1400
    assert "the context holds 2,048" in window.problems.text()
    assert texts(window)[2] == "beta " * 900
