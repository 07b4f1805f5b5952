"""Following the end, lazy building, streaming, and what is said in words."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractSlider, QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.transcript import FIRST_BUILT, MORE_BUILT, Transcript
from mlx_spec.events import DrafterStats, Finished, PromptProgress, Round, Span
from tests.desktop.chat.helpers import a_round, row, wheel

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")
STATS = Finished(1, "stop", (), 42, 9, 0, 20, 0.5, 0.6, 1.35, 1, 0.058, {"model": DrafterStats(10, 100, 61)})


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    made = Transcript()
    qtbot.addWidget(made)
    made.resize(600, 400)
    made.show()
    return made


def settle(transcript: Transcript) -> None:
    for _ in range(4):
        QApplication.processEvents()


def at_end(transcript: Transcript) -> bool:
    bar = transcript.verticalScrollBar()
    return bar.value() == bar.maximum()


def test_only_the_last_messages_are_built_and_older_ones_keep_the_place(transcript: Transcript) -> None:
    transcript.show_messages([row(n, text=f"message {n}\n\nsecond line") for n in range(1, 101)])
    settle(transcript)
    assert len(transcript.views) == FIRST_BUILT
    assert at_end(transcript)
    bar = transcript.verticalScrollBar()
    bar.triggerAction(QAbstractSlider.SliderAction.SliderToMinimum)
    first = transcript.views[0]
    before = first.mapTo(transcript.viewport(), first.rect().topLeft()).y()
    settle(transcript)
    assert len(transcript.views) == FIRST_BUILT + MORE_BUILT
    assert transcript.views[0].row.id == 100 - FIRST_BUILT - MORE_BUILT + 1
    assert abs(first.mapTo(transcript.viewport(), first.rect().topLeft()).y() - before) <= 1


def test_follows_until_the_person_scrolls_away(transcript: Transcript) -> None:
    transcript.show_messages([row(n, text="text\n\n" * 8) for n in range(1, 6)])
    transcript.add_message(row(9, state="writing"))
    for _ in range(30):
        transcript.append_rounds(9, [a_round(own="words and\n\n")])
        settle(transcript)
        assert at_end(transcript)
    wheel(transcript.views[-1].view.viewport(), 6)
    assert not transcript.following
    assert transcript._jump.isVisible()
    value = transcript.verticalScrollBar().value()
    for _ in range(10):
        transcript.append_rounds(9, [a_round(own="more\n\n")])
        settle(transcript)
    transcript.finish(row(9, text=transcript.views[-1].view.typesetter.source), STATS)
    settle(transcript)
    assert transcript.verticalScrollBar().value() == value
    transcript._jump.click()
    settle(transcript)
    assert at_end(transcript)
    assert transcript.following
    assert not transcript._jump.isVisible()


def test_finish_does_not_move_the_view(transcript: Transcript) -> None:
    transcript.show_messages([row(n, text="text\n\n" * 8) for n in range(1, 6)])
    transcript.add_message(row(9, state="writing"))
    transcript.append_rounds(9, [a_round(own="some words")])
    settle(transcript)
    before, height = transcript.verticalScrollBar().value(), transcript.views[-1].height()
    transcript.finish(row(9, text="some words"), STATS)
    settle(transcript)
    assert transcript.verticalScrollBar().value() == before
    assert transcript.views[-1].height() == height


def test_one_wheel_step_near_the_end_still_follows(transcript: Transcript) -> None:
    transcript.show_messages([row(n, text="text\n\n" * 8) for n in range(1, 6)])
    settle(transcript)
    wheel(transcript.viewport(), 1)
    assert transcript.following


def test_streamed_reply_and_its_tail(transcript: Transcript) -> None:
    transcript.add_message(row(1, "user", "hi"))
    transcript.add_message(row(2, state="writing", spans=()))
    transcript.append_rounds(
        2, [a_round(["so", "me"], ["WRONG"], " **bo"), a_round(own="ld"), a_round(["**"], [], " x")]
    )
    view = transcript.views[-1]
    assert view.view.toPlainText() == "some bold x"
    transcript.finish(row(2, text="some **bold** x tail"), STATS)
    assert view.view.typesetter.source == "some **bold** x tail"
    assert view.view.toPlainText() == "some bold x tail"
    assert view.stats.text() == "42 tokens, 31 tok/s, 1.8× plain, 61 % of drafts held"
    view.copy_text()
    assert QGuiApplication.clipboard().text() == "some bold x tail"
    view.copy_markdown()
    assert QGuiApplication.clipboard().text() == "some **bold** x tail"


def test_prompt_progress_stands_in_place_of_the_reply(transcript: Transcript) -> None:
    transcript.add_message(row(2, state="writing"))
    view = transcript.views[-1]
    assert view.status.text() == "Waiting for the model"
    transcript.set_progress(2, PromptProgress(1, 512, 2048, 300))
    assert view.status.text() == "Reading the prompt: 512 / 2,048, 300 already known"
    assert view.bar.isVisible()
    transcript.append_rounds(2, [a_round(own="x")])
    assert not view.status.isVisible()
    assert not view.bar.isVisible()
    assert view.view.isVisible()


@pytest.mark.parametrize(("state", "word"), [("cut", "cut off"), ("failed", "finished"), ("stopped", "Stopped")])
def test_states_are_said_in_words(transcript: Transcript, qtbot: QtBot, state: str, word: str) -> None:
    transcript.show_messages([row(5, text="half", state=state, note="Because.")])
    view = transcript.views[0]
    assert word in view.status.text()
    assert "Because." in view.status.text()
    assert view.restart_button.isVisible() == (state != "stopped")
    with qtbot.waitSignal(transcript.regenerate_requested) as asked:
        view.regenerate_button.click()
    assert asked.args == [5]


def test_edit_in_place_runs_again_with_the_new_text(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([row(3, "user", "my *words*")])
    view = transcript.views[0]
    assert view.view.toPlainText() == "my *words*"
    view.edit_button.click()
    editor = view._editor
    assert editor is not None
    assert not view.view.isVisible()
    assert editor.field.toPlainText() == "my *words*"
    qtbot.keyClicks(editor.field, " more")
    with qtbot.waitSignal(transcript.edit_requested) as asked:
        qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert asked.args == [3, "my *words* more"]


def test_an_edit_can_be_left(transcript: Transcript, qtbot: QtBot) -> None:
    asked: list[int] = []
    transcript.edit_requested.connect(lambda number, _text: asked.append(number))
    transcript.show_messages([row(3, "user", "words")])
    view = transcript.views[0]
    view.edit_button.click()
    editor = view._editor
    assert editor is not None
    editor.field.setPlainText("")
    editor.run_button.click()
    assert view._editor is editor
    qtbot.keyClick(editor.field, Qt.Key.Key_Escape)
    assert view._editor is None
    assert view.view.isVisible()
    assert asked == []


def test_a_stored_reply_has_its_tints_and_can_show_its_drafts(transcript: Transcript) -> None:
    rounds: list[Round] = [a_round(["so", "me"], [" WRONG"], " text"), a_round([], ["NO"], " on", "lookup")]
    transcript.rounds_provider = lambda number: rounds if number == 7 else []
    spans = (Span("some", "model"), Span(" text on"))
    transcript.show_messages([row(7, text="some text on", spans=spans)])
    view = transcript.views[0]
    assert [(r.start, r.end, r.drafter) for r in view.view.typesetter.runs] == [(0, 4, "model")]
    view.drafts_button.click()
    settle(transcript)
    assert [(g.place, g.text, g.room > 0) for g in view.view.typesetter.rejected] == [
        (4, " WRONG", True),
        (9, "NO", True),
    ]
    assert view.view.toPlainText() == "some text on"
    view.drafts_button.click()
    assert not any(g.room for g in view.view.typesetter.rejected)


def test_switches_reach_every_message(transcript: Transcript) -> None:
    transcript.show_messages([row(7, text="some", spans=(Span("some", "model"),))])
    block = transcript.views[0].view.document().firstBlock()
    assert block.layout().formats()
    transcript.set_show_drafts(False)
    assert block.layout().formats() == []
    transcript.set_show_rejected(False)
    transcript.add_message(row(8, state="writing"))
    transcript.append_rounds(8, [a_round(["a"], ["b"], "c")])
    assert all(g.room == 0 for g in transcript.views[-1].view.typesetter.rejected)


def test_a_huge_message_is_shown_in_part_and_copied_whole(transcript: Transcript) -> None:
    text = "x" * 5_000_000
    transcript.show_messages([row(1, "user", text), row(2, text=text)])
    settle(transcript)
    for view in transcript.views:
        assert len(view.view.toPlainText()) < 400_000
        view.copy_text()
        assert QGuiApplication.clipboard().text() == text


def test_unknown_messages_are_left_alone(transcript: Transcript) -> None:
    transcript.append_rounds(99, [a_round(own="x")])
    transcript.set_progress(99, PromptProgress(1, 1, 2, 0))
    transcript.finish(row(99, text="x"), None)
    assert transcript.views == []


def test_buttons_are_reached_by_keyboard_and_that_counts_as_scrolling(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([row(n, text="text\n\n" * 8) for n in range(1, 6)])
    settle(transcript)
    view = transcript.views[0]
    assert not view.awake
    assert transcript.views[-1].awake
    view.view.setFocus()
    for _ in range(8):
        transcript.focusNextPrevChild(True)
        if view.copy_button.hasFocus():
            break
    assert view.copy_button.hasFocus()
    assert not transcript.following
    for button in (view.copy_button, view.markdown_button, view.regenerate_button, view.edit_button):
        assert button.accessibleName()
