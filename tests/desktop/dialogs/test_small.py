"""Problem bar, empty chat, help and About."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QWidget
from pytestqt.qtbot import QtBot

from desktop.dialogs.empty_state import SAMPLES, EmptyState
from desktop.dialogs.problem_bar import ProblemBar
from desktop.dialogs.texts import HelpDialog, about_box, help_html
from mlx_spec.events import Failed

pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


def test_problem_bar(qtbot: QtBot) -> None:
    bar = ProblemBar()
    qtbot.addWidget(bar)
    assert bar.text() == ""
    done: list[bool] = []
    bar.show_problem(Failed(1, "It broke.", "Mend it."), "Mend", lambda: done.append(True))
    assert bar.text() == "It broke. Mend it."
    bar.grab()
    bar._button.click()
    assert done == [True]
    assert bar.isHidden()
    bar.show_problem(Failed(1, "It broke."))
    assert not bar._button.isVisibleTo(bar)
    qtbot.keyClick(bar, Qt.Key.Key_Escape)
    assert bar.isHidden()


def test_empty_state_offers_three_questions(qtbot: QtBot) -> None:
    page = EmptyState()
    qtbot.addWidget(page)
    buttons = page.findChildren(QPushButton)
    assert len(buttons) == len(SAMPLES) == 3
    with qtbot.waitSignal(page.picked) as signal:
        buttons[0].click()
    assert signal.args == [SAMPLES[0][1]]
    page.set_model("Starter")
    assert "Starter answers" in page._hint.text()


def test_help_names_every_drafter(qtbot: QtBot) -> None:
    text = help_html(("lookup", "model", "new_kind"), dark=True)
    for title in ("Prompt lookup", "Draft model", "New kind"):
        assert title in text
    dialog = HelpDialog(("lookup",))
    qtbot.addWidget(dialog)
    dialog.grab()


def test_about(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    box = about_box(parent)
    assert "Outrider" in box.text()
    box.close()
