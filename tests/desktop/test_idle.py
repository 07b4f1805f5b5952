"""A model that nobody uses gives its memory back, and is there again when somebody writes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.idle import PRESSED_S, SHORT, Idle, due
from desktop.settings import UNLOAD_AFTER, Settings
from desktop.store import Store
from mlx_spec.events import Problem
from tests.desktop import window_engine

WAIT_MS = 15_000


@pytest.mark.parametrize(
    ("minutes", "idle_s", "pressure", "unloads"),
    [
        (None, 1e9, "", False),
        (None, 1e9, "warning", False),
        (None, PRESSED_S, "critical", True),
        (None, PRESSED_S - 1, "critical", False),
        (5, 299, "normal", False),
        (5, 300, "normal", True),
    ],
)
def test_when_it_is_time(minutes: int | None, idle_s: float, pressure: str, unloads: bool) -> None:
    assert due(minutes, idle_s, pressure) is unloads


class Machine:
    def __init__(self) -> None:
        self.now, self.pressure, self.told = 0.0, "normal", list[str]()


@pytest.fixture
def talk(qtbot: QtBot, tmp_path: Path) -> Iterator[Conversation]:
    settings, store = Settings(tmp_path / "settings.json"), Store(tmp_path / "chats.db")
    made = Conversation(store, settings, EngineClient(window_engine.main))
    yield made
    made.close()
    store.close()
    gc.collect()  # here, and not in another test's thread


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def idle(talk: Conversation, machine: Machine, qtbot: QtBot) -> Idle:
    made = Idle(talk, talk._settings, machine.told.append, lambda: machine.pressure, lambda: machine.now)
    talk.start()
    ready(talk, qtbot)
    return made


def ready(talk: Conversation, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: talk.state is EngineState.IDLE, timeout=WAIT_MS)


def test_it_rests_and_wakes_when_somebody_types(idle: Idle, talk: Conversation, machine: Machine, qtbot: QtBot) -> None:
    talk._settings.set(UNLOAD_AFTER, 5)
    assert idle._timer.isActive()
    machine.now = 299
    idle.look()
    assert talk.state is EngineState.IDLE
    idle.touch()
    machine.now = 500
    idle.look()
    assert talk.state is EngineState.IDLE  # somebody typed meanwhile
    machine.now = 600
    idle.look()
    assert talk.state is EngineState.ASLEEP
    assert not talk.client.alive
    assert not idle._timer.isActive()
    assert machine.told == []
    idle.touch()
    ready(talk, qtbot)
    assert talk.client.alive


def test_a_message_wakes_it_and_is_answered(idle: Idle, talk: Conversation, qtbot: QtBot) -> None:
    talk.sleep()
    talk.send("Hello")
    ended: list[object] = []
    talk.reply_finished.connect(lambda row, _: ended.append(row.state))
    qtbot.waitUntil(lambda: ended == ["done"], timeout=WAIT_MS)


def test_memory_that_is_short_is_told(idle: Idle, talk: Conversation, machine: Machine, qtbot: QtBot) -> None:
    machine.now, machine.pressure = 200, "critical"
    idle.look()
    assert talk.state is EngineState.ASLEEP
    assert machine.told == [SHORT]
    with pytest.raises(Problem):
        talk.hold("a race")  # not now, but it wakes
    ready(talk, qtbot)


def test_nothing_is_taken_from_what_runs(idle: Idle, talk: Conversation, machine: Machine, qtbot: QtBot) -> None:
    talk.hold("a race")
    machine.now, machine.pressure = 9e9, "critical"
    idle.look()
    talk.sleep()
    assert talk.state is EngineState.GENERATING
    talk.release()
    idle._since = machine.now
    idle.look()
    assert talk.state is EngineState.IDLE  # it was in use until now
