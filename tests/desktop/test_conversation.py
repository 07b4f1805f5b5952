"""The whole way without a window: store, settings and a real engine process that needs no model."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.conversation import Conversation
from desktop.engine_client import EngineClient, last_words
from desktop.engine_keeper import EngineState
from desktop.settings import DRAFTERS, LAST_CHAT, MODEL, SYSTEM_PROMPT, Settings
from desktop.shelf import Shelf
from desktop.store import MessageRow, Store
from mlx_spec.events import Failed, Forget, Generate, Load, Problem, Round
from tests.fakes import dying_engine, fake_engine, slow_load_engine

KILLS = int(os.environ.get("KILLS", "3"))


class Talk:
    """A conversation and what it said."""

    def __init__(self, folder: Path, engine: Callable[[Connection], None] = fake_engine) -> None:
        self.store = Store(folder / "chats.db")
        self.settings = Settings(folder / "settings.json")
        self.client = EngineClient(engine)
        self.conversation = Conversation(self.store, self.settings, self.client)
        self.problems: list[Failed] = []
        self.finished: list[MessageRow] = []
        self.rounds: list[Round] = []
        self.states: list[EngineState] = []
        self.conversation.problem.connect(self.problems.append)
        self.conversation.reply_finished.connect(lambda row, _: self.finished.append(row))
        self.conversation.rounds_arrived.connect(lambda _, rounds: self.rounds.extend(rounds))
        self.conversation.state_changed.connect(lambda state, *_: self.states.append(state))

    def close(self) -> None:
        self.conversation.close()
        self.store.close()

    @property
    def messages(self) -> list[MessageRow]:
        assert self.conversation.chat is not None
        return self.store.messages(self.conversation.chat.id)


@pytest.fixture
def make(tmp_path: Path, qapp: object) -> Iterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def build(engine: Callable[[Connection], None] = fake_engine) -> Talk:
        made.append(Talk(tmp_path, engine))
        return made[-1]

    yield build
    for talk in made:
        talk.close()


def idle(qtbot: QtBot, talk: Talk) -> None:
    qtbot.waitUntil(lambda: talk.conversation.state is EngineState.IDLE, timeout=20_000)


def test_a_turn(qtbot: QtBot, make: Callable[..., Talk]) -> None:
    talk = make()
    talk.settings.set(SYSTEM_PROMPT, "Be brief.")
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("Hello\0 there \ud800")
    assert [m.role for m in talk.messages] == ["user", "assistant"]
    assert talk.messages[0].text == "Hello there \ufffd"
    assert talk.messages[1].state == "writing"
    with pytest.raises(Problem, match="still being written"):
        talk.conversation.send("too early")
    idle(qtbot, talk)
    (row,) = talk.finished
    assert row.state == "done"
    assert row.text == "".join(s.text for r in talk.rounds for s in r.spans)
    assert talk.store.rounds(row.id) == talk.rounds
    assert talk.store.chats()[0].title == "Hello there \ufffd"
    order = [s for i, s in enumerate(talk.states) if i == 0 or s is not talk.states[i - 1]]
    assert order == [
        EngineState.LOADING,
        EngineState.IDLE,
        EngineState.PREFILLING,
        EngineState.GENERATING,
        EngineState.IDLE,
    ]


def test_edit_and_regenerate_overwrite_nothing(qtbot: QtBot, make: Callable[..., Talk]) -> None:
    talk = make()
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("one")
    idle(qtbot, talk)
    first = talk.messages
    talk.conversation.regenerate(first[1].id)
    idle(qtbot, talk)
    assert talk.messages[0].id == first[0].id
    assert talk.messages[1].id != first[1].id
    talk.conversation.edit(first[0].id, "two")
    idle(qtbot, talk)
    assert [m.text for m in talk.messages][:1] == ["two"]
    assert talk.store.message(first[1].id) == first[1]
    assert len(talk.store.siblings(first[0].id)) == 2


def test_stop_keeps_what_came(qtbot: QtBot, make: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TOKENS", "100000")
    talk = make()
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("go on")
    qtbot.waitUntil(lambda: len(talk.rounds) > 5, timeout=10_000)
    talk.conversation.stop()
    idle(qtbot, talk)
    assert talk.finished[0].state == "stopped"
    assert talk.finished[0].text == "".join(s.text for r in talk.rounds for s in r.spans)


def test_drafters_change_in_mid_reply(qtbot: QtBot, make: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TOKENS", "100000")
    talk = make()
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("go on")
    qtbot.waitUntil(lambda: any(r.drafter for r in talk.rounds), timeout=10_000)
    for name in DRAFTERS.default:
        talk.conversation.set_drafter(name, False)
    assert talk.settings.get(DRAFTERS) == ()
    qtbot.waitUntil(lambda: len(talk.rounds) > 20 and not any(r.drafter for r in talk.rounds[-5:]), timeout=10_000)
    talk.conversation.set_drafter("model", True)
    talk.conversation.set_drafter("lookup", True)
    assert talk.settings.get(DRAFTERS) == ("lookup", "model")


def test_a_failure_is_told_and_the_next_turn_works(qtbot: QtBot, make: Callable[..., Talk]) -> None:
    talk = make()
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("please fail")
    qtbot.waitUntil(lambda: bool(talk.problems), timeout=10_000)
    assert talk.finished[0].state == "failed"
    idle(qtbot, talk)
    talk.conversation.send("again")
    idle(qtbot, talk)
    assert talk.finished[1].state == "done"


def test_a_message_sent_while_loading_is_answered_later(qtbot: QtBot, make: Callable[..., Talk]) -> None:
    talk = make(slow_load_engine)
    talk.conversation.start()
    talk.conversation.send("early")
    assert [m.text for m in talk.messages] == ["early"]
    qtbot.waitUntil(lambda: bool(talk.finished), timeout=20_000)
    assert talk.finished[0].parent_id == talk.messages[0].id


def test_a_model_that_cannot_be_loaded_is_told(qtbot: QtBot, make: Callable[..., Talk]) -> None:
    talk = make()
    talk.conversation.new_chat()
    talk.conversation.load("missing")
    qtbot.waitUntil(lambda: bool(talk.problems), timeout=20_000)
    assert talk.conversation.state is EngineState.NO_MODEL
    talk.conversation.load("fake")
    idle(qtbot, talk)


def test_the_engine_killed_at_any_moment(
    qtbot: QtBot, make: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TOKENS", "400")
    talk = make()
    talk.conversation.start()
    idle(qtbot, talk)
    rng = random.Random(KILLS)
    for i in range(KILLS):
        talk.rounds.clear()
        talk.finished.clear()
        talk.conversation.send(f"question {i}")
        end = time.monotonic() + rng.uniform(0.0, 0.6)
        qtbot.waitUntil(lambda end=end: time.monotonic() > end, timeout=5000)  # type: ignore[misc]
        assert talk.client.pid is not None
        os.kill(talk.client.pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: talk.conversation.state is EngineState.DEAD, timeout=10_000)
        assert "killed" in talk.problems[-1].message
        (row,) = talk.finished
        assert row.state == "cut"
        assert row.text == "".join(s.text for r in talk.rounds for s in r.spans)
        talk.conversation.restart_engine()
        idle(qtbot, talk)
        talk.conversation.send(f"next {i}")
        qtbot.waitUntil(lambda: len(talk.finished) == 2, timeout=20_000)
        assert talk.finished[1].state == "done"
        idle(qtbot, talk)
        assert [m.text for m in talk.messages if m.role == "user"][-2:] == [f"question {i}", f"next {i}"]


def test_an_engine_that_dies_by_itself(qtbot: QtBot, make: Callable[..., Talk]) -> None:
    talk = make(dying_engine)
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("hello")
    qtbot.waitUntil(lambda: talk.conversation.state is EngineState.DEAD, timeout=10_000)
    assert talk.finished[0].state == "cut"
    assert len(talk.rounds) == 5
    talk.conversation.send("kept until it runs again")
    assert talk.messages[-1].text == "kept until it runs again"


def test_closing_in_mid_reply_leaves_nothing_behind(
    qtbot: QtBot, make: Callable[..., Talk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TOKENS", "100000")
    talk = make()
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("go on")
    qtbot.waitUntil(lambda: len(talk.rounds) > 5, timeout=10_000)
    pid = talk.client.pid
    assert pid is not None
    talk.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    store = Store(tmp_path / "chats.db")
    row = store.messages(store.chats()[0].id)[-1]
    assert row.state == "cut"
    assert row.text == "".join(s.text for r in talk.rounds for s in r.spans)
    store.close()


def sent(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the engine is asked from here on."""
    asked: list[object] = []
    send = talk.client.send
    monkeypatch.setattr(talk.client, "send", lambda request: (asked.append(request), send(request))[1])
    return asked


def test_a_deleted_chat_can_be_brought_back(
    qtbot: QtBot, make: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = make()
    asked = sent(talk, monkeypatch)
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("one")
    idle(qtbot, talk)
    assert talk.conversation.chat is not None
    number = talk.conversation.chat.id
    before = talk.messages
    talk.conversation.delete_chat(number)
    assert number not in [c.id for c in talk.store.chats()]
    assert talk.conversation.chat.id != number
    Shelf(talk.store).restore(number)
    talk.conversation.open_chat(number)
    assert talk.messages == before
    assert not [r for r in asked if isinstance(r, Forget)]


def test_the_engine_forgets_a_chat_when_it_is_removed_for_good(
    qtbot: QtBot, make: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = make()
    talk.conversation.start()
    idle(qtbot, talk)
    talk.conversation.send("one")
    idle(qtbot, talk)
    assert talk.conversation.chat is not None
    number = talk.conversation.chat.id
    talk.conversation.delete_chat(number)
    now = sent(talk, monkeypatch)
    talk.conversation.forget_removed()
    assert now == []  # in the trash it is not removed
    Shelf(talk.store).remove([number])
    talk.conversation.forget_removed()
    assert now == [Forget(str(number))]
    talk.close()
    # An engine that does not load has not been seen to forget; the next one is told again.
    broken = make()
    asked = sent(broken, monkeypatch)
    broken.settings.set(MODEL, "missing")
    broken.conversation.start()
    qtbot.waitUntil(lambda: bool(broken.problems), timeout=20_000)
    assert [r.chat for r in asked if isinstance(r, Forget)] == [str(number)]
    assert Shelf(broken.store).owed() == [number]
    broken.conversation.load("fake")
    idle(qtbot, broken)
    broken.store.flush()
    assert [type(r) for r in asked[:4]] == [Forget, Load, Forget, Load]
    assert Shelf(broken.store).owed() == []


def test_an_incognito_chat_is_kept_nowhere(
    qtbot: QtBot, make: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = make()
    asked = sent(talk, monkeypatch)
    talk.conversation.start()
    idle(qtbot, talk)
    shown = talk.settings.get(LAST_CHAT)
    talk.conversation.new_chat(incognito=True)
    talk.conversation.send("psst")
    idle(qtbot, talk)
    assert talk.conversation.chat is not None
    assert talk.conversation.chat.incognito
    assert talk.conversation.chat.title == "psst"
    assert [m.state for m in talk.messages] == ["done", "done"]
    assert talk.store.rounds(talk.messages[1].id) == talk.rounds
    assert talk.settings.get(LAST_CHAT) == shown
    talk.conversation.new_chat()
    assert not talk.conversation.chat.incognito
    talk.conversation.send("aloud")
    idle(qtbot, talk)
    kept = [r.chat for r in asked if isinstance(r, Generate)]
    assert kept == [None, str(talk.conversation.chat.id)]


def test_exit_codes_are_explained() -> None:
    assert "memory" in last_words(-signal.SIGKILL)
    assert "SIGABRT" in last_words(-signal.SIGABRT)
    assert "code 3" in last_words(3)
