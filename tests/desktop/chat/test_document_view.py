"""What a message's view copies, opens and fetches, and where its code buttons are."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextCursor, QTextDocument
from pytestqt.qtbot import QtBot

from desktop.chat.document_view import DocumentView, ghost_text, open_link
from desktop.chat.typesetter import Rejected

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def view(qtbot: QtBot) -> DocumentView:
    made = DocumentView()
    qtbot.addWidget(made)
    made.resize(500, 100)
    made.show()
    return made


def write(view: DocumentView, text: str, rejected: list[Rejected] | None = None) -> None:
    ghosts = rejected or []
    view.add_ghosts(ghosts)
    view.typesetter.append([(text, "model")], ghosts)


def test_copy_never_has_rejected_drafts(view: DocumentView) -> None:
    write(view, "one **two** three", [Rejected(3, "WRONG", "model")])
    view.grab()
    cursor = view.textCursor()
    cursor.setPosition(0)
    cursor.setPosition(9, QTextCursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    data = view.createMimeDataFromSelection()
    assert data.text() == "one two t"
    assert not data.hasHtml()
    view.selectAll()
    data = view.createMimeDataFromSelection()
    assert data.text() == "one **two** three"
    assert data.data("text/markdown").data() == b"one **two** three"
    assert "WRONG" not in view.toPlainText()


def test_rejected_drafts_open_room_and_fold_away(view: DocumentView, qtbot: QtBot) -> None:
    write(view, "one two three", [Rejected(3, " wrong words", "model")])
    wide = view.document().idealWidth()
    ghost = view.typesetter.rejected[0]
    assert ghost.room > 20
    qtbot.waitUntil(lambda: ghost.room == 0, timeout=4000)
    assert view.document().idealWidth() < wide - 20
    assert view.toPlainText() == "one two three"


def test_rejected_drafts_can_be_off(view: DocumentView) -> None:
    view.set_show_rejected(False)
    write(view, "one two", [Rejected(3, "x", "model")])
    assert view.typesetter.rejected[0].room == 0


def test_standing_drafts_and_their_words(view: DocumentView) -> None:
    view.set_show_rejected(False)
    write(view, "one two", [Rejected(3, "x", "lookup")])
    view.set_still_ghosts(True)
    assert view.typesetter.rejected[0].room > 0
    view.grab()
    words = view.words_at(view.cursorRect(QTextCursor(view.document())).center())
    assert "Draft model" in words
    view.set_still_ghosts(False)
    assert view.typesetter.rejected[0].room == 0


def test_height_is_the_documents(view: DocumentView) -> None:
    write(view, "line\n\n" * 30)
    assert abs(view.height() - view.document().size().height()) <= 1


def test_copy_button_of_a_code_block(view: DocumentView) -> None:
    write(view, "text\n\n```py\nx = 1\n```\nmore\n\n```\nopen")
    buttons = [b for b in view._buttons if not b.isHidden()]
    assert len(buttons) == 2
    assert buttons[0].accessibleName() == "Copy code"
    buttons[0].click()
    assert QGuiApplication.clipboard().text() == "x = 1"
    rect = view.panel_rect(view.typesetter.panels[0])
    assert rect.contains(buttons[0].geometry().center())


def test_nothing_is_fetched(view: DocumentView) -> None:
    kind = QTextDocument.ResourceType.ImageResource.value
    assert view.loadResource(kind, QUrl("https://example.org/a.png")) is None
    assert view.loadResource(kind, QUrl("file:///etc/hostname")) is None


def test_only_web_and_mail_links_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    for address in ("https://a.b/", "mailto:a@b.c", "file:///etc/passwd", "javascript:1", "x-app:go", "a/b"):
        open_link(QUrl(address))
    assert opened == ["https://a.b/", "mailto:a@b.c"]


def test_ghost_text() -> None:
    assert ghost_text("a\nb") == "a↵b"
    assert ghost_text("  ") == "␣␣"
    assert len(ghost_text("x" * 99)) == 24


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_reply_that_begins_with_code_has_room_for_its_label(view: DocumentView, size: int) -> None:
    source = "```python\ndef ride():\n    return 1\n```\n\nThat is it."
    for at in range(0, len(source), size):
        view.typesetter.append([(source[at : at + size], None)])
    view.typesetter.finish()
    rect = view.panel_rect(view.typesetter.panels[0])
    assert rect.top() >= 0
    assert rect.height() > 50
    assert view.height() >= rect.bottom()
