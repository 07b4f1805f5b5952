"""Slow work beside the window: answers come back in the window's thread, errors too."""

from __future__ import annotations

import threading

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from desktop.dialogs.background import Background, problem_text
from mlx_spec.events import Problem


def test_answers_and_errors_come_back_in_this_thread(qtbot: QtBot) -> None:
    owner = QObject()
    background = Background(owner)
    seen: list[tuple[object, bool]] = []
    here = threading.get_ident()

    def note(value: object) -> None:
        seen.append((value, threading.get_ident() == here))

    def fail() -> int:
        raise Problem("No such folder.", "Pick another one.")

    background.run(threading.get_ident, note, note)
    background.run(fail, note, note)
    qtbot.waitUntil(lambda: len(seen) == 2)
    values = [value for value, _ in seen]
    assert all(same for _, same in seen)
    assert here not in values
    problems = [v for v in values if isinstance(v, Problem)]
    assert problem_text(problems[0]) == "No such folder.\nPick another one."
    assert not background._timer.isActive()


def test_an_owner_that_is_gone_hears_nothing(qtbot: QtBot) -> None:
    owner = QObject()
    gate = threading.Event()
    seen: list[bool] = []
    Background(owner).run(gate.wait, seen.append, lambda _e: seen.append(False))
    owner.deleteLater()
    qtbot.wait(60)
    gate.set()
    qtbot.wait(100)
    assert seen == []


def test_other_errors_are_owned_up_to() -> None:
    assert "KeyError" in problem_text(KeyError("x"))
