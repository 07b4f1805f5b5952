from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, QSize, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from desktop.attention import ICON, LONG_S, STEPS, Attention, icon_with_bar, notice_of, step_of, worth_telling
from desktop.engine_keeper import EngineState
from desktop.settings import NOTIFY, Settings
from desktop.store import INCOGNITO, ChatRow, MessageRow


@pytest.mark.parametrize(
    ("wanted", "in_front", "seconds", "state", "told"),
    [
        (True, False, LONG_S, "done", True),
        (True, False, 3600, "failed", True),
        (True, False, 3600, "cut", True),
        (True, False, 3600, "stopped", False),
        (True, True, 3600, "done", False),
        (True, False, LONG_S - 1, "done", False),
        (False, False, 3600, "done", False),
    ],
)
def test_what_is_news(wanted: bool, in_front: bool, seconds: float, state: str, told: bool) -> None:
    assert worth_telling(wanted, in_front, seconds, state) is told


def row(state: str = "done", text: str = "a secret") -> MessageRow:
    return MessageRow(2, 1, 1, "assistant", text, state, 0.0)


def test_a_notice_says_nothing_of_the_reply() -> None:
    assert notice_of(ChatRow(1, "Tax", 0, 0), row()) == ("Tax", "The reply is finished.")
    assert notice_of(ChatRow(INCOGNITO, "Tax", 0, 0), row()) == ("Outrider", "The reply is finished.")
    assert notice_of(ChatRow(1, "", 0, 0), row("failed")) == ("Outrider", "The reply failed.")
    assert notice_of(None, row("cut")) == ("Outrider", "The reply broke off.")


def test_the_bar_is_for_what_takes_long() -> None:
    assert step_of(EngineState.LOADING, 0.5) == STEPS // 2
    assert step_of(EngineState.LOADING, 1.2) == STEPS
    assert step_of(EngineState.LOADING, -1) == -1
    assert step_of(EngineState.PREFILLING, 0.5) == -1


def test_the_bar_grows(qtbot: QtBot) -> None:
    def white(step: int) -> int:
        image = icon_with_bar(QIcon(str(ICON)), step).pixmap(QSize(256, 256)).toImage()
        line = round(image.height() * 0.8)
        return sum(image.pixelColor(x, line).name() == "#ffffff" for x in range(image.width()))

    widths = [white(step) for step in (0, STEPS // 4, STEPS // 2, STEPS)]
    assert widths == sorted(widths)
    assert widths[0] <= 2
    assert widths[3] >= 160


class Talk(QObject):
    message_added = Signal(object)
    reply_finished = Signal(object, object)
    state_changed = Signal(object, str, float)


def test_long_replies_are_counted_until_they_are_seen(qtbot: QtBot, tmp_path: object) -> None:
    window, talk, now, told = QWidget(), Talk(), [0.0], []
    qtbot.addWidget(window)
    settings = Settings(tmp_path / "settings.json")  # type: ignore[operator]
    attention = Attention(
        window, talk, settings, lambda _: ChatRow(1, "Tax", 0, 0), lambda *w: told.append(w), lambda: now[0]  # type: ignore[arg-type]
    )  # fmt: skip

    def reply(seconds: float) -> None:
        talk.message_added.emit(row())
        now[0] += seconds
        talk.reply_finished.emit(row(), None)

    reply(99)
    assert told == []  # the window is closed
    window.show()
    attention.in_front = lambda: False  # type: ignore[method-assign]
    reply(99)
    reply(1)
    settings.set(NOTIFY, False)
    reply(99)
    assert told == [("Tax", "The reply is finished.")]
    assert attention.unseen == 1
    from PySide6.QtCore import Qt

    attention._looked(Qt.ApplicationState.ApplicationActive)
    assert attention.unseen == 0
