"""The Tokens window: rows, replay, a reply that is being written, and the ways that lead to it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QWidget
from pytestqt.qtbot import QtBot

from desktop.chat.message_view import MessageView
from desktop.color_scheme import scheme_palette
from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.settings import Settings
from desktop.store import MessageRow, Store
from desktop.tokens.legend import Legend
from desktop.tokens.opener import TokensOpener
from desktop.tokens.pieces import Fate
from desktop.tokens.rows_view import STILL
from desktop.tokens.timeline import Moment
from desktop.tokens.tokens_window import TokensWindow
from tests.desktop import window_engine
from tests.desktop.tokens.samples import TEXT, finished, reply

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
ROUNDS = reply()
SPANS = tuple(s for r in ROUNDS for s in r.spans)
ROW = MessageRow(2, 1, 1, "assistant", TEXT, "done", 0.0, "", SPANS, finished(ROUNDS), "Tiny")


@pytest.fixture
def window(qtbot: QtBot) -> TokensWindow:
    made = TokensWindow()
    qtbot.addWidget(made)
    made.resize(860, 640)
    made.show()
    return made


def point_of(window: TokensWindow, row: int, fate: Fate) -> QPoint:
    """The middle of the first token of a row with such a fate, brought into sight."""
    rows = window.rows
    top = rows._tops[row]
    rows.verticalScrollBar().setValue(top)
    rect = next(rect for rect, token in rows._chips(row) if token.fate is fate)
    return rect.translated(0, top - rows.verticalScrollBar().value()).center().toPoint()


def test_an_old_reply_is_shown_whole(window: TokensWindow) -> None:
    window.show_reply(ROW, ROUNDS, "\n What is an outrider?\nBe brief.")
    assert window._asked.text() == "What is an outrider?"
    assert "tokens drafted" in window._figures.text()
    assert window.player.at_end
    assert window.rows._moment is STILL
    assert window.follow.isHidden()
    assert window.player.total == pytest.approx(finished(ROUNDS).decode_s)
    bar = window.rows.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    for dark in (False, True):
        window.setPalette(scheme_palette(dark))
        window.grab()


def test_a_token_is_pointed_at(window: TokensWindow) -> None:
    window.show_reply(ROW, ROUNDS)
    row = next(i for i, r in enumerate(ROUNDS) if r.drafter == "model" and 0 < r.accepted < len(r.drafted))
    assert "it held" in window.rows.words_at(point_of(window, row, Fate.HELD))
    assert "by the drafter" in window.rows.words_at(point_of(window, row, Fate.HELD))
    assert "rejected" in window.rows.words_at(point_of(window, row, Fate.REJECTED))
    own = window.rows.words_at(point_of(window, row, Fate.OWN))
    assert "wrote it itself" in own
    assert "Rejected here" in own
    assert "draft" in own
    beside = QPoint(6, point_of(window, row, Fate.HELD).y())
    assert window.rows.words_at(beside).startswith(f"Pass {row + 1}: ")


def test_stepping_and_picking(window: TokensWindow) -> None:
    window.show_reply(ROW, ROUNDS)
    window.player.seek(0.0)
    assert window.rows._moment == Moment(0)
    assert "first pass" in window._now.text()
    QTest.keyClick(window, Qt.Key.Key_Right)
    assert window.rows._moment == Moment(1)
    assert window._now.text().startswith(f"{len(ROUNDS[0].tokens)} tokens. Pass 1")
    window.player.on_button.click()
    window.player.back_button.click()
    assert window.rows._moment.rounds == 1
    assert window.rows.row_at(QPoint(40, window.rows._tops[5] + 2)) is None  # what is not there yet
    window.rows.setFocus()
    QTest.keyClick(window.rows, Qt.Key.Key_Down)
    assert window.rows._moment.rounds == 2
    window.rows.picked.emit(9)
    assert window.rows._moment.rounds == 9
    assert "Pass 9" in window.rows.accessibleDescription()


def test_drafts_lie_open_while_they_are_checked(window: TokensWindow) -> None:
    window.show_reply(ROW, ROUNDS)
    k = next(i for i, r in enumerate(ROUNDS) if r.drafted)
    window.player.seek(window.timeline.end_of(k) + ROUNDS[k].draft_s + 0.001)
    assert window.rows._moment == Moment(k, waiting=True)
    assert "are being checked" in window._now.text()
    rect, _ = next(iter(window.rows._chips(k)))
    middle = rect.translated(0, window.rows._tops[k]).center().toPoint()
    assert "it held" not in window.rows.words_at(middle)
    window.grab()


@pytest.mark.parametrize(("speed", "factor"), [("1×", 1.0), ("4×", 4.0)])
def test_the_replay_keeps_the_pace(window: TokensWindow, qtbot: QtBot, speed: str, factor: float) -> None:
    window.show_reply(ROW, ROUNDS)
    window.player.speed.setCurrentText(speed)
    began = time.monotonic()
    QTest.keyClick(window, Qt.Key.Key_Space)
    assert window.player.playing
    qtbot.waitUntil(lambda: window.player.at > 0.4, timeout=5000)
    took = (time.monotonic() - began) * factor
    assert took == pytest.approx(window.player.at, abs=0.1 * factor)
    assert window.rows._moment.rounds > 0
    QTest.keyClick(window, Qt.Key.Key_Space)
    assert not window.player.playing
    window.player.play()
    window.hide()
    assert not window.player.playing


def test_a_reply_is_followed_while_it_is_written(window: TokensWindow) -> None:
    live = replace(ROW, state="writing", stats=None)
    window.show_reply(live, ROUNDS[:3])
    assert window.follow.isChecked()
    window.add_rounds(ROW.id, ROUNDS[3:6])
    window.add_rounds(99, ROUNDS[6:9])
    window.catch_up()
    assert len(window.timeline.rounds) == 6
    assert window.player.at_end
    window.rows.picked.emit(2)  # looking back lets go of the end
    assert not window.follow.isChecked()
    window.add_rounds(ROW.id, ROUNDS[6:10])
    window.catch_up()
    assert window.rows._moment.rounds == 2
    window.follow.setChecked(True)
    assert window.rows._moment is STILL
    window.add_rounds(ROW.id, ROUNDS[10:])  # still to be shown when the reply ends
    window.finish(ROW, ROW.stats)
    assert window.timeline.rounds == ROUNDS
    assert window.follow.isHidden()
    assert window.player.at_end
    assert window.player.total == pytest.approx(finished(ROUNDS).decode_s)


def test_a_reply_without_rounds(window: TokensWindow) -> None:
    window.show_reply(replace(ROW, stats=None), [])
    assert "not kept" in window._figures.text()
    assert not window.player.play_button.isEnabled()
    window.player.toggle()
    window.grab()


def test_ten_thousand_tokens_do_not_make_it_slow(window: TokensWindow) -> None:
    many = [replace(r, index=i) for i, r in enumerate(ROUNDS * 110)]
    began = time.perf_counter()
    window.show_reply(ROW, many)
    assert time.perf_counter() - began < 2
    began = time.perf_counter()
    for k in range(20):
        window.player.seek(window.player.total * k / 20)
        window.rows.viewport().grab()
    assert (time.perf_counter() - began) / 20 < 0.1


def test_the_legend_breaks_its_line(qtbot: QtBot) -> None:
    legend = Legend()
    qtbot.addWidget(legend)
    legend.set_drafters(("model", "suffix", "lookup"))
    assert legend.accessibleName().startswith("Legend: Suffix lookup, Prompt lookup, Draft model")
    assert "Draft model: solid line" in legend.toolTip()
    legend.resize(900, 40)
    legend.show()
    low = legend.height()
    legend.resize(260, 40)
    assert legend.height() > low


# -------------------------------------------------------------------------------------- the ways to it


def test_a_token_in_the_chat_is_pointed_at(qtbot: QtBot) -> None:
    view = MessageView(ROW)
    qtbot.addWidget(view)
    asked: list[int] = []
    view.rounds_provider = lambda number: asked.append(number) or ROUNDS  # type: ignore[func-returns-value]
    view.resize(600, 500)
    view.show()
    word = view.view.document().find("looks")
    word.setPosition(word.selectionStart() + 2)
    said = view.view.words_at(view.view.cursorRect(word).center())
    assert "“ looks”" in said
    assert "Pass " in said
    assert "by the model" in said
    view.view.words_at(view.view.cursorRect(word).center())
    assert asked == [ROW.id]  # read once
    bold = view.view.document().find("turn back")
    bold.setPosition(bold.selectionStart() + 1)
    assert "turn" in view.view.words_at(view.view.cursorRect(bold).center())


@pytest.mark.qt_log_ignore("propagateSizeHints", "raise", "grabbing the keyboard")  # of the offscreen platform
def test_the_menu_of_a_message_leads_there(qtbot: QtBot) -> None:
    view = MessageView(ROW)
    qtbot.addWidget(view)
    view.show()
    with qtbot.waitSignal(view.tokens_requested) as signal:
        view.tokens_button.click()
    assert signal.args == [ROW.id]
    view.contextMenuEvent(QContextMenuEvent(QContextMenuEvent.Reason.Mouse, QPoint(5, 5), QPoint(5, 5)))
    (menu,) = [m for m in view.findChildren(QMenu) if m.actions()]
    texts = [a.text() for a in menu.actions()]
    assert view.tokens_button.accessibleName() in texts
    with qtbot.waitSignal(view.tokens_requested):
        menu.actions()[texts.index(view.tokens_button.accessibleName())].trigger()
    menu.close()


def test_opened_on_a_reply_that_is_being_written(qtbot: QtBot, tmp_path: Path) -> None:
    settings, store = Settings(tmp_path / "settings.json"), Store(tmp_path / "chats.db")
    talk = Conversation(store, settings, EngineClient(window_engine.main))
    parent = QWidget()
    qtbot.addWidget(parent)
    opener = TokensOpener(parent, talk, store)
    replies: list[MessageRow] = []
    talk.message_added.connect(lambda row: replies.append(row) if row.role == "assistant" else None)
    talk.start()
    qtbot.waitUntil(lambda: talk.state is EngineState.IDLE, timeout=15_000)
    opener.open(None)
    assert opener.window is None
    talk.send("slow")
    qtbot.waitUntil(lambda: opener._live is not None and len(opener._live[1]) > 3, timeout=15_000)
    opener.open(replies[-1].id)
    assert opener.window is not None
    had = len(opener.window.timeline.rounds)
    assert had > 3
    qtbot.waitUntil(lambda: len(opener.window.timeline.rounds) > had, timeout=15_000)  # type: ignore[union-attr]
    talk.stop()
    qtbot.waitUntil(lambda: talk.state is EngineState.IDLE, timeout=15_000)
    shown = list(opener.window.timeline.rounds)
    assert shown == store.rounds(replies[-1].id)
    assert "".join(s.text for r in shown for s in r.spans) == store.message(replies[-1].id).text  # type: ignore[union-attr]
    opener.open(replies[-1].id)  # again, from the disk
    assert opener.window.timeline.rounds == shown
    assert opener.window._asked.text() == "slow"
    talk.close()
    store.close()
