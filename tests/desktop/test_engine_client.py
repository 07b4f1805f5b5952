"""The window's end of the pipe, with real processes that speak the contract."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from pytestqt.qtbot import QtBot

from desktop.engine_client import EngineClient, last_words
from mlx_spec.events import Event, Finished, Generate, Load, Loaded, Message, Round, Stop
from tests.fakes import dying_engine, fake_engine, slow_load_engine

ASK = (Message("user", "hello"),)
Make = Callable[..., EngineClient]


@pytest.fixture
def make(qapp: object) -> Iterator[Make]:
    made: list[EngineClient] = []

    def start(target: Callable[..., None] = fake_engine) -> EngineClient:
        client = EngineClient(target)
        made.append(client)
        client.start()
        return client

    yield start
    for client in made:
        client.close(2.0)


def until(qtbot: QtBot, client: EngineClient, kind: type, seconds: float = 20) -> list[Event]:
    """Events up to the first of a kind."""
    events: list[Event] = []

    def came() -> bool:
        events.extend(client.drain())
        return any(isinstance(e, kind) for e in events)

    qtbot.waitUntil(came, timeout=int(seconds * 1000))
    return events


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_reply_comes_whole_and_in_order(qtbot: QtBot, make: Make) -> None:
    client = make()
    assert client.send(Load(1, "fake"))
    assert any(isinstance(e, Loaded) for e in until(qtbot, client, Loaded))
    client.send(Generate(2, ASK))
    events = until(qtbot, client, Finished)
    rounds = [e for e in events if isinstance(e, Round)]
    assert [r.index for r in rounds] == list(range(len(rounds)))
    finished = next(e for e in events if isinstance(e, Finished))
    assert sum(len(r.tokens) for r in rounds) == finished.tokens


def test_arrived_is_told_once_between_two_drains(qtbot: QtBot, make: Make) -> None:
    client = make()
    told: list[int] = []
    client.arrived.connect(lambda: told.append(1))
    client.send(Load(1, "fake"))
    qtbot.waitUntil(lambda: len(client._events) >= 3, timeout=20_000)  # progress, loaded, memory
    qtbot.wait(20)
    assert len(told) == 1
    assert len(client.drain()) == 3
    client.send(Load(2, "fake"))
    qtbot.waitUntil(lambda: len(told) == 2, timeout=20_000)


def test_stop_ends_a_reply_early(qtbot: QtBot, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TOKENS", "100000")
    client = make()
    client.send(Generate(2, ASK))
    until(qtbot, client, Round)
    client.send(Stop(2))
    finished = next(e for e in until(qtbot, client, Finished) if isinstance(e, Finished))
    assert finished.reason == "stopped"


def test_death_is_told_after_all_that_was_said(qtbot: QtBot, make: Make) -> None:
    client = make(dying_engine)
    client.send(Load(1, "fake"))
    client.send(Generate(2, ASK))
    with qtbot.waitSignal(client.died, timeout=20_000) as blocker:
        pass
    assert "killed" in blocker.args[0]
    assert len([e for e in client.drain() if isinstance(e, Round)]) == 5
    assert not client.alive
    client.send(Generate(3, ASK))  # neither raises nor waits


def test_a_restart_works_and_speaks_of_the_new_process_only(qtbot: QtBot, make: Make) -> None:
    client = make()
    deaths: list[str] = []
    client.died.connect(deaths.append)
    client.send(Load(1, "fake"))
    until(qtbot, client, Loaded)
    first = client.pid
    assert first is not None
    client.restart()
    assert client.alive
    assert client.pid != first
    assert gone(first)
    client.send(Load(2, "fake"))
    assert [e.request for e in until(qtbot, client, Loaded) if isinstance(e, Loaded)] == [2]
    assert deaths == []


def test_close_leaves_no_process_even_in_mid_work(qtbot: QtBot, make: Make) -> None:
    client = make(slow_load_engine)
    client.send(Load(1, "fake"))
    pid = client.pid
    assert pid is not None
    client.close(2.0)
    assert gone(pid)
    assert not client.alive
    client.close()


def test_close_ends_a_process_that_is_stopped(qtbot: QtBot, make: Make) -> None:
    client = make()
    client.send(Load(1, "fake"))
    until(qtbot, client, Loaded)
    pid = client.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # takes neither Shutdown nor SIGTERM
    began = time.monotonic()
    client.close(0.3)
    assert gone(pid)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("code", "word"),
    [(-9, "memory"), (-6, "SIGABRT"), (-11, "SIGSEGV"), (-15, "15"), (3, "3"), (0, "unexpectedly"), (None, "unexp")],
)
def test_exit_codes_are_sentences(code: int | None, word: str) -> None:
    words = last_words(code)
    assert word in words
    assert words.endswith(".")
