from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.opened import Opened, sort

CHAT = {
    "name": "Old chat",
    "messages": [
        {"versions": [{"type": "singleStep", "role": "user", "content": [{"type": "text", "text": "Hello"}]}],
         "currentlySelected": 0},
    ],
}  # fmt: skip


def test_files_are_told_apart(tmp_path: Path) -> None:
    chat, table, notes = tmp_path / "1.conversation.json", tmp_path / "table.json", tmp_path / "notes.md"
    chat.write_text(json.dumps(CHAT))
    table.write_text('{"a": 1}')
    notes.write_text("# Notes")
    gguf, folder, other = tmp_path / "m.GGUF", tmp_path / "model", tmp_path / "folder"
    gguf.touch()
    folder.mkdir()
    other.mkdir()
    (folder / "config.json").touch()
    (folder / "model.safetensors").touch()
    archive, gone = tmp_path / "export.zip", tmp_path / "gone.json"
    found = sort([chat, table, notes, gguf, folder, other, archive, gone, notes])
    assert found.model == folder
    assert found.chats == [chat, archive]
    assert found.attachments == [table, notes, other, gone]  # what cannot be attached is said there


def test_events_that_come_together_are_taken_together(qtbot: QtBot, qapp: QApplication) -> None:
    application = QObject()
    opened = Opened(application)
    for name in ("/tmp/a.txt", "/tmp/b.txt"):
        QApplication.sendEvent(application, QFileOpenEvent(name))
    with qtbot.waitSignal(opened.arrived, timeout=2000) as told:
        opened.add([])
    assert told.args == [[Path("/tmp/a.txt"), Path("/tmp/b.txt")]]
    with qtbot.assertNotEmitted(opened.arrived, wait=200):
        opened.add([])


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "null"])
def test_broken_json_is_an_attachment(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    assert sort([file]).attachments == [file]
