"""Files into a message: by paste, drop and paper clip; chips, refusals, the question about large ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QImage
from PySide6.QtWidgets import QApplication, QDialog, QPlainTextEdit
from pytestqt.qtbot import QtBot

from desktop.attachments import Attachment, join, split
from desktop.chat.chips import LOOKED_AT, ChipRow, show_text, size_words
from desktop.chat.composer import Composer
from desktop.context import TokenCounter, Tokens
from desktop.room import Room

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def composer(qtbot: QtBot) -> Composer:
    made = Composer()
    qtbot.addWidget(made)
    made.resize(600, 200)
    made.show()
    return made


@pytest.fixture
def room(composer: Composer) -> Room:
    made = Room(TokenCounter(lambda request: None))
    made.set_model(1000)
    composer.set_room(made)
    return made


def files(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def test_pasted_files_become_chips_and_go_with_the_message(composer: Composer, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "a.py").write_text("print(1)\n")
    (tmp_path / "b.csv").write_text("x,y\n")
    composer.field.setPlainText("Read these")
    composer.field.insertFromMimeData(files(tmp_path / "a.py", tmp_path / "b.csv"))
    qtbot.waitUntil(lambda: len(composer.tray.attachments) == 2)
    assert composer.field.toPlainText() == "Read these"
    assert composer.text() == join([Attachment("a.py", "print(1)"), Attachment("b.csv", "x,y")], "Read these")
    sent: list[str] = []
    composer.submitted.connect(sent.append)
    composer.submit()
    assert split(sent[0]) == ([Attachment("a.py", "print(1)"), Attachment("b.csv", "x,y")], "Read these")
    assert composer.tray.attachments == []
    assert composer.tray.isHidden()


def test_dropped_files_alone_are_a_message(composer: Composer, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "n.md").write_text("# Notes")
    assert not composer.button.isEnabled()
    data = files(tmp_path / "n.md")
    plain, left = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
    drop = QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, left, plain)
    composer.dropEvent(drop)
    assert drop.isAccepted()
    qtbot.waitUntil(lambda: composer.button.isEnabled())
    composer.set_text(composer.text())  # as the draft of a chat that is opened again
    assert composer.tray.attachments == [Attachment("n.md", "# Notes")]


def test_links_to_the_web_stay_text(composer: Composer) -> None:
    data = QMimeData()
    data.setUrls([QUrl("https://example.org/a.txt")])
    data.setText("https://example.org/a.txt")
    composer.field.insertFromMimeData(data)
    assert composer.text() == "https://example.org/a.txt"
    assert composer.tray.attachments == []


def test_refusals_are_one_sentence_and_cost_nothing(composer: Composer, tmp_path: Path, qtbot: QtBot) -> None:
    composer.field.setPlainText("kept")
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")
    composer.attach([tmp_path / "x.bin"])
    qtbot.waitUntil(lambda: not composer.tray.busy)
    assert composer.tray.note.text().startswith("x.bin is not a text file.")
    assert composer.text() == "kept"
    composer.tray.close_note.click()
    assert composer.tray.isHidden()
    picture = QMimeData()
    picture.setImageData(QImage(4, 4, QImage.Format.Format_RGB32))
    composer.field.insertFromMimeData(picture)
    assert composer.tray.note.text().startswith("Pictures cannot be attached")
    composer.attach([tmp_path / f"{k}.txt" for k in range(50)])
    assert "too many files" in composer.tray.note.text()


def test_nothing_is_sent_while_a_file_is_read(composer: Composer, qtbot: QtBot, tmp_path: Path) -> None:
    sent: list[str] = []
    composer.submitted.connect(sent.append)
    (tmp_path / "a.txt").write_text("a")
    composer.field.setPlainText("now")
    composer.attach([tmp_path / "a.txt"])
    assert composer.tray.note.text() == "Reading a.txt…"
    composer.submit()
    assert sent == []
    qtbot.waitUntil(lambda: len(composer.tray.attachments) == 1)
    composer.submit()
    assert len(sent) == 1


def test_what_is_read_for_another_chat_is_dropped(composer: Composer, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    composer.attach([tmp_path / "a.txt"])
    composer.set_text("the draft of another chat")
    qtbot.wait(150)
    assert composer.text() == "the draft of another chat"


def test_a_large_file_is_cut_or_left_out_as_one_says(
    composer: Composer, room: Room, tmp_path: Path, qtbot: QtBot
) -> None:
    (tmp_path / "big.txt").write_text("some words in a line\n" * 2000)
    composer.field.setPlainText("what is it")
    composer.attach([tmp_path / "big.txt"])
    qtbot.waitUntil(lambda: composer.tray.cut_button.isVisible())
    assert "big.txt has about 11,000 tokens; about 750 fit." in composer.tray.note.text()
    composer.submit()
    assert composer.field.toPlainText() == "what is it"  # the question comes first
    composer.tray.leave_button.click()
    assert composer.tray.attachments == []
    assert not composer.tray.busy
    composer.attach([tmp_path / "big.txt"])
    qtbot.waitUntil(lambda: composer.tray.cut_button.isVisible())
    composer.tray.cut_button.click()
    (part,) = composer.tray.attachments
    assert part.whole == len("some words in a line\n" * 2000) - 1
    assert part.text.endswith("some words in a line")
    assert not room.filling(composer.text()).full


def test_chips_tell_and_go(qtbot: QtBot) -> None:
    row = ChipRow(None, removable=True)  # type: ignore[arg-type]
    qtbot.addWidget(row)
    row.count = lambda text: Tokens(1234, exact=False)
    row.set_attachments([Attachment("a.txt", "x" * 2048), Attachment("b.txt", "y", 99)])
    row.show()
    first, second = row.chips
    assert first.accessibleName() == "a.txt, 2 KB, about 1,200 tokens"
    assert second.words() == "1 byte, about 1,200 tokens, cut"
    assert "first 1 of 99 characters" in second.toolTip()
    row.count = lambda text: Tokens(7)
    row.recount()
    assert first.words() == "2 KB, 7 tokens"
    first.setFocus()
    qtbot.keyClick(first, Qt.Key.Key_Delete)
    assert row.attachments == [Attachment("b.txt", "y", 99)]
    row.chips[0]._cross.click()  # type: ignore[union-attr]
    assert row.attachments == []
    assert row.isHidden()


def test_a_chip_shows_its_text_however_odd(composer: Composer, qtbot: QtBot) -> None:
    dialog = show_text(Attachment("long.txt", "z" * 5_000_000), composer)
    assert isinstance(dialog, QDialog)
    text = dialog.findChild(QPlainTextEdit).toPlainText()
    assert f"{5_000_000 - LOOKED_AT:,} more characters" in text
    assert max(map(len, text.split("\n"))) <= 2_000
    dialog.close()
    QApplication.processEvents()


def test_sizes_in_words() -> None:
    assert [size_words(n) for n in (0, 999, 12_345, 3_400_000)] == ["0 bytes", "999 bytes", "12 KB", "3.4 MB"]


def test_the_meter_says_what_fills(composer: Composer, room: Room, qtbot: QtBot) -> None:
    assert composer.meter.isVisible()
    assert composer.meter.words() == "0 of 1,000 tokens"
    composer.set_text(join([Attachment("a.txt", "w " * 500)], "What is it?"))
    qtbot.waitUntil(lambda: "about" in composer.meter.words())
    assert "Files: about" in composer.meter.explanation()
    assert "This message: about" in composer.meter.explanation()
    composer.set_text("w " * 4000)
    qtbot.waitUntil(lambda: composer.meter.words().endswith("the context is full"))
    room.set_model(0)
    qtbot.waitUntil(lambda: not composer.meter.isVisible())
