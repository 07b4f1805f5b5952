"""A message set while it arrives is the message set at once, and its marks sit on the right words."""

from __future__ import annotations

import random
import time

import pytest
from PySide6.QtGui import QColor, QFont, QGuiApplication, QTextDocument, QTextFormat
from pytestqt.qtbot import QtBot

from desktop.chat.highlight import COMMENT, KEYWORD, STRING, ink_of
from desktop.chat.typesetter import Rejected, Typesetter
from desktop.theme import colors

SAMPLE = (
    "Here is **how** it `works` 😀 and [a link](https://example.org/how).\n\n## Steps\n\n1. **Read** it\n2. Split\n\n"
    "```python\ndef f(a):\n    return a\n```\n- one\n- two\n  - three\n\n| n | v |\n|---|---|\n| a | 1 |\n\n"
    "> quoted\n\nשלום עולם\n\nthe *end*"
)


def make() -> Typesetter:
    document = QTextDocument()
    document.setUndoRedoEnabled(False)
    made = Typesetter(document, QFont(), colors(QGuiApplication.palette()))
    made.keep_alive = document  # type: ignore[attr-defined]
    return made


def pieces(text: str, seed: int) -> list[str]:
    pick, at, found = random.Random(seed), 0, []
    while at < len(text):
        size = pick.randint(1, 9)
        found.append(text[at : at + size])
        at += size
    return found


def text_at(made: Typesetter, start: int, end: int) -> str:
    return made.document.toRawText().encode("utf-16-le")[start * 2 : end * 2].decode("utf-16-le", "replace")


@pytest.mark.parametrize("seed", range(6))
def test_streamed_is_the_same_as_set_at_once(qtbot: QtBot, seed: int) -> None:
    whole, streamed = make(), make()
    whole.append([(SAMPLE, None)])
    whole.finish()
    for k, piece in enumerate(pieces(SAMPLE, seed)):
        streamed.append([(piece, "model" if k % 2 else None)])
    streamed.finish()
    assert streamed.source == SAMPLE
    assert streamed.document.toRawText() == whole.document.toRawText()
    assert streamed.document.toMarkdown() == whole.document.toMarkdown()
    assert [(p.language, p.code) for p in streamed.panels] == [("python", "def f(a):\n    return a")]


@pytest.mark.parametrize("word", ["how", "works", "Read", "return a", "three", "1 |", "😀", "עולם", "end"])
def test_a_drafted_word_keeps_its_mark(qtbot: QtBot, word: str) -> None:
    made = make()
    before, _, after = SAMPLE.partition(word)
    made.append([(before, None), (word, "lookup"), (after, None)])
    made.finish()
    assert [r.drafter for r in made.runs] == ["lookup"]
    got = text_at(made, made.runs[0].start, made.runs[0].end)
    assert got.strip("\ufdd0\ufdd1\u2029") == word.rstrip(" |")


def test_marks_are_not_in_the_text(qtbot: QtBot) -> None:
    made = make()
    ghost = Rejected(5, "wrong", "model", room=30.0)
    made.standing.append(ghost)
    made.append([("some ", None), ("words", "model")], [ghost])
    block = made.document.firstBlock()
    assert len(block.layout().formats()) == 2
    assert "wrong" not in made.document.toPlainText()
    assert "￼" not in made.document.toRawText()
    assert not block.charFormat().background().isOpaque()
    made.show_drafts = False
    made.rejected[0].room = 0.0
    made.lay_marks(0)
    assert block.layout().formats() == []


def test_rejected_drafts_stay_at_their_word(qtbot: QtBot) -> None:
    made = make()
    made.append([("a **bold", None), ("** word", None)], [Rejected(8, "er", "model")])
    made.append([(" more\n\nnext", None)])
    assert text_at(made, 0, made.rejected[0].place) == "a bold"


def test_html_and_pictures_are_text(qtbot: QtBot) -> None:
    made = make()
    made.append([("<b>x</b> <script>1</script> ![alt words](https://example.org/a.png) y", None)])
    made.finish()
    text = made.document.toPlainText()
    assert "<b>x</b>" in text
    assert "<script>" in text
    assert "alt words" in text
    assert "￼" not in text


@pytest.mark.parametrize(
    "text",
    [
        "a\0b\ud800c\r\nd\ufffce\u2029f\ufdd0g",
        "> " * 10_000 + "deep",
        "\n".join("  " * k + "- x" for k in range(0, 10_000, 60)),
        "$" * 30_000,
        "$x$ " * 10_000,
        "```python\n" + '"' * 100_000,
        "[" * 30_000,
        "*" * 30_000 + "x",
        "`" * 30_000,
        "- " * 4_000,
        "x" * 250_000,
        "|" * 10_000 + "\n" + "|-" * 5_000,
        "\n" * 50_000,
        "```\n" * 3_001,
        "a\n\n" * 50_000,
        "![" * 300 + "](" * 300,
    ],
)
def test_hostile_text_neither_hangs_nor_raises(qtbot: QtBot, text: str) -> None:
    made = make()
    start = time.perf_counter()
    made.append([(text, "model")])
    made.finish()
    assert time.perf_counter() - start < 4
    assert made.source == text


def test_a_rushed_block_is_rendered_when_idle(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make()
    monkeypatch.setattr("desktop.chat.typesetter.FRAME_S", 0.0)
    made.append([("a **b", None)])
    made.append([("c** d", None)])
    assert made.document.toPlainText() == "a **bc** d"
    assert made.settle()
    assert made.document.toPlainText() == "a bc d"
    assert not made.settle()


@pytest.mark.parametrize(
    "cuts", [["``", "`", "py", "thon", "\n", "a", " = 1\n", "b = 2\n"], ["```python\na", " = 1\nb = 2\n"]]
)
def test_code_is_right_while_it_streams(qtbot: QtBot, cuts: list[str]) -> None:
    """A fence that arrives in pieces: what shows is the code so far, never the fence's own line."""
    made = make()
    made.append([("Look:\n\n", None)])
    source = ""
    for piece in cuts:
        made.append([(piece, "lookup")])
        source += piece
        if "\n" in source:
            body = source.split("\n", 1)[1]
            assert made.panels[-1].language == "python"
            assert made.panels[-1].code.rstrip("\n") == body.rstrip("\n")
            assert made.document.toPlainText().rstrip("\n") == ("Look:\n" + body).rstrip("\n")
    made.append([("```\nafter", None)])
    made.finish()
    assert made.document.toPlainText() == "Look:\na = 1\nb = 2\nafter"


def code_words(typesetter: Typesetter, color: QColor) -> list[str]:
    """The pieces of the text that are shown in a colour."""
    found, block = [], typesetter.document.begin()
    while block.isValid():
        for piece in block.layout().formats():
            if piece.format.foreground().color() == color:
                found.append(block.text()[piece.start : piece.start + piece.length])
        block = block.next()
    return found


def test_code_is_coloured_while_it_comes(qtbot: QtBot) -> None:
    source = 'Look:\n\n```python\n"""a def\nreturn b"""\ndef ride(road):\n    return 1  # go\n```\n\ndef is no code\n'
    whole, streamed = make(), make()
    whole.append([(source, None)])
    whole.finish()
    for at in range(0, len(source), 3):
        streamed.append([(source[at : at + 3], "model" if at % 2 else None)])
    open_colors = code_words(streamed, ink_of(KEYWORD, streamed.colors))
    streamed.finish()
    for typesetter in (whole, streamed):
        assert code_words(typesetter, ink_of(KEYWORD, typesetter.colors)) == ["def", "return"] == open_colors
        assert code_words(typesetter, ink_of(STRING, typesetter.colors)) == ['"""a def', 'return b"""']
        assert code_words(typesetter, ink_of(COMMENT, typesetter.colors)) == ["# go"]
    formats = streamed.document.findBlock(streamed.panels[0].start).layout().formats()
    tinted = [piece.format.hasProperty(QTextFormat.Property.BackgroundBrush.value) for piece in formats]
    assert True in tinted  # the drafts' tints lie over it
    assert False in tinted


def test_a_fence_that_is_cut_for_its_length_goes_on_in_its_language(qtbot: QtBot) -> None:
    typesetter = make()
    typesetter.append([("```python\n" + "x = 1\n" * 4000 + "def last(): pass\n```\n", None)])
    typesetter.finish()
    assert len(typesetter.panels) > 1
    assert "def" in code_words(typesetter, ink_of(KEYWORD, typesetter.colors))
