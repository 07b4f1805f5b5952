"""Thought and answer are told apart however the text comes, and the thought stays folded."""

from __future__ import annotations

import random

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from desktop.chat.message_view import MessageView
from desktop.chat.parter import Parter, Piece
from mlx_spec.events import Span
from tests.desktop.chat.helpers import a_round, row


def parted(text: str, seed: int) -> tuple[str, str, Parter]:
    draw, parter = random.Random(seed), Parter()
    thought: list[Piece] = []
    answer: list[Piece] = []
    at = 0
    while at < len(text):
        size = draw.randint(1, 9)
        out = parter.feed([(text[at : at + size], draw.choice(["model", None]))])
        at += size
        if out.restart:
            answer = []
        thought += out.thought
        answer += out.answer
    out = parter.finish()
    return "".join(t for t, _ in thought + out.thought), "".join(t for t, _ in answer + out.answer), parter


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("plain", "", "plain"),
        ("<think>\nhm\n</think>\n\nyes", "\nhm\n", "\n\nyes"),
        ("  <think>a</think>b", "a", "b"),
        ("<think>never done", "never done", ""),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("<thought>no</thought>", "", "<thought>no</thought>"),
        ("<thi", "", "<thi"),
        ("so it goes\n</think>\n\nyes", "so it goes\n", "\nyes"),
        ("the tag `</think>` ends it", "", "the tag `</think>` ends it"),
        ("```\n</think>\n```\n", "", "```\n</think>\n```\n"),
        ("<think></think>\n\nyes", "", "\n\nyes"),
        ("<think>a</think>b\n</think>\nc", "a", "b\n</think>\nc"),
    ],
)
def test_thought_and_answer(text: str, thought: str, answer: str, seed: int) -> None:
    got = parted(text, seed)
    assert got[:2] == (thought, answer)
    if thought:
        assert text[got[2].thought_from :].startswith(thought)
    assert text.endswith(answer)
    assert text[got[2].answer_from :] == answer or not answer


def said(view: MessageView) -> tuple[str, str]:
    return (view.thought.view.typesetter.source if view.thought else "", view.view.typesetter.source)


def test_a_reply_that_thinks(qtbot: QtBot) -> None:
    view = MessageView(row(1, state="writing"))
    qtbot.addWidget(view)
    view.resize(600, 200)
    view.show()
    view.append_rounds([a_round(held=["<think>", "well"], failed=[" no"], own=" then")])
    assert view.thought is not None
    assert view.thought.isVisible()
    assert view.thought.button.text() == "Thinking: 2 words"
    assert not view.thought.view.isVisible()
    assert not view.view.isVisible()
    view.append_rounds([a_round(held=["</think>", "The"], failed=[" old"], own=" answer")])
    assert view.thought.button.text() == "Thought: 2 words"
    assert said(view) == ("well then", "The answer")
    assert view.view.isVisible()
    assert view.view.typesetter.rejected[0].source == len("The")
    assert view.thought.view.typesetter.rejected[0].source == len("well")
    assert [run.drafter for run in view.view.typesetter.open_runs] == ["model"]
    view.thought.button.click()
    assert view.thought.view.isVisible()
    assert "Hide it" in view.thought.button.accessibleName()
    view.finish(row(1, text="<think>well then</think>The answer."), None)
    assert said(view) == ("well then", "The answer.")
    view.copy_text()
    assert QGuiApplication.clipboard().text() == "The answer."


def test_a_stored_reply_and_one_that_began_inside_its_thought(qtbot: QtBot) -> None:
    text = "hm, so\n</think>\n\nYes, **it** is."
    view = MessageView(row(1, text=text, spans=(Span(text[:9], "model"), Span(text[9:]))))
    qtbot.addWidget(view)
    assert said(view) == ("hm, so\n", "\nYes, **it** is.")
    view.rounds_provider = lambda number: [a_round(held=["hm,", " so"], failed=[" not"], own=text[6:])]
    view.show_all_drafts(True)
    assert said(view) == ("hm, so\n", "\nYes, **it** is.")
    assert [g.text for g in view.thought.view.typesetter.rejected] == [" not"]  # type: ignore[union-attr]
    assert view.view.typesetter.rejected == []


def test_a_reply_that_was_stopped_while_it_thought(qtbot: QtBot) -> None:
    view = MessageView(row(1, text="<think>not yet do", state="stopped"))
    qtbot.addWidget(view)
    view.show()
    assert said(view) == ("not yet do", "")
    assert view.thought is not None
    assert view.thought.button.text() == "Thought: 3 words"
    assert view.status.text() == "Stopped."
    view.copy_text()
    assert QGuiApplication.clipboard().text() == "not yet do"
