"""What a screen reader is told while a reply comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from desktop.announcer import LETTERS_A_SECOND, Announcer, Sentences, say, spoken
from desktop.settings import ANNOUNCE, Settings
from desktop.store import MessageRow
from mlx_spec.events import Round, Span
from tests.desktop.window_engine import a_round, finished


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is so. Is it? Yes!", ["It is so.", "Is it?", "Yes!"]),
        ("Pi is 3.14 or so. e.g. this stays. Next", ["Pi is 3.14 or so. e.g. this stays.", "Next"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        (
            "## A **bold** heading\n\n- one `thing`\n- [ ] a [link](http://x.y)\n",
            ["A bold heading", "one thing", "a link"],
        ),
        ("1. First. Then\n2. Second", ["1. First.", "Then", "2. Second"]),
        ("See:\n```python\nx = 1. \nY = 2\n```\nDone.", ["See:", "Code, 2 lines.", "Done."]),
        ("````\n```\n````\nAfter", ["Code, 1 line.", "After"]),
        ("```\nopen", ["Code, 1 line."]),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\n", ["a, b", "1, 2"]),
        ("它在这里。对吗？好", ["它在这里。", "对吗？", "好"]),
        ("snake_case stays, _this_ not", ["snake_case stays, this not"]),
        ("\n\n---\n\n", []),
    ],
)
def test_sentences(text: str, sentences: list[str], step: int) -> None:
    parts = Sentences()
    found: list[str] = []
    for at in range(0, len(text), step):
        found += parts.feed(text[at : at + step])
    assert found + parts.finish() == sentences


def test_signs_are_not_read() -> None:
    assert spoken("> **Note:** use `a * b`, not ![a *picture*](x.png)") == "Note: use a * b, not a picture"


class Reader:
    """A screen reader, and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.on = True
        self.heard: list[str] = []

    def say(self, widget: QWidget, words: str) -> None:
        self.heard.append(words)


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def announcer(qtbot: QtBot, reader: Reader, tmp_path: Path) -> Announcer:
    widget = QWidget()
    qtbot.addWidget(widget)
    settings = Settings(tmp_path / "settings.json")
    return Announcer(widget, settings, reader.say, lambda: reader.on, lambda: reader.now)


def rounds(*texts: str) -> list[Round]:
    return [replace(a_round(1, k), spans=(Span(text),)) for k, text in enumerate(texts)]


def row(state: str = "done", number: int = 5) -> MessageRow:
    return MessageRow(number, 1, None, "assistant", "", state, 0.0)


def feed(announcer: Announcer, texts: Sequence[str]) -> None:
    for text in texts:
        announcer.add_rounds(5, rounds(text))


def test_sentences_wait_for_the_last_to_be_read(announcer: Announcer, reader: Reader, qtbot: QtBot) -> None:
    feed(announcer, ["The first", " sentence. Th", "e second. The third. And"])
    assert reader.heard == ["The first sentence."]
    reader.now += len("The first sentence.") / LETTERS_A_SECOND
    announcer.speak()
    assert reader.heard[1:] == ["The second. The third."]
    announcer.reply_finished(row(), finished(1, 1, "stop"))
    assert len(reader.heard) == 2
    reader.now += 10
    announcer.speak()
    assert reader.heard[2:] == ["And The reply is finished."]


def test_it_goes_on_by_itself(announcer: Announcer, reader: Reader, qtbot: QtBot) -> None:
    feed(announcer, ["Aye. B"])
    announcer.reply_finished(row(), None)
    reader.now += 1
    qtbot.waitUntil(lambda: reader.heard == ["Aye.", "B The reply is finished."], timeout=3000)


def test_thought_is_named_and_not_read(announcer: Announcer, reader: Reader) -> None:
    feed(announcer, ["<think>Let me see. ", "Hm. Yes.\n</think>\n\nIt is four", ". Sure."])
    assert reader.heard == ["Thinking."]
    reader.now += 9
    announcer.reply_finished(row(), None)
    assert reader.heard[1:] == ["It is four. Sure. The reply is finished."]


def test_who_stops_a_reply_hears_no_more_of_it(announcer: Announcer, reader: Reader) -> None:
    feed(announcer, ["One. Two. Three. Four"])
    reader.now += 9
    announcer.reply_finished(row("stopped"), finished(1, 1, "stopped"))
    assert reader.heard == ["One. Two. Three.", "Stopped."]


def test_nothing_is_said_where_nobody_listens(announcer: Announcer, reader: Reader, tmp_path: Path) -> None:
    reader.on = False
    feed(announcer, ["One. Two. "])
    reader.on = True
    announcer._settings.set(ANNOUNCE, False)
    feed(announcer, ["Three. Four. "])
    announcer.reply_finished(row(), None)
    assert reader.heard == []
    announcer._settings.set(ANNOUNCE, True)
    announcer.reply_finished(row(number=6), None)
    assert reader.heard == []


def test_a_real_announcement_goes_out(qtbot: QtBot) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    say(widget, "A sentence.")
