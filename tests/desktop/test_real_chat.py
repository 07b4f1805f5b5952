"""A person and the real starter model: the window, the engine's process and a database, nothing stood in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.conversation import Conversation
from desktop.engine_client import EngineClient
from desktop.engine_keeper import EngineState
from desktop.settings import MAX_TOKENS, MODEL, SEED, TEMPERATURE, Settings
from desktop.store import Store
from desktop.window import MainWindow

pytestmark = pytest.mark.starter
SENTENCE = "Ada Lovelace wrote the first program"


def test_a_chat_with_the_starter(qtbot: QtBot, starter_model: Path, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "settings.json")
    settings.set(MODEL, str(starter_model))
    settings.set(MAX_TOKENS, 40)
    settings.set(TEMPERATURE, 0.0)
    settings.set(SEED, 7)
    store = Store(tmp_path / "chats.db")
    client = EngineClient()
    talk = Conversation(store, settings, client)
    window = MainWindow(talk, settings, store)
    qtbot.addWidget(window)
    problems: list[object] = []
    talk.problem.connect(problems.append)
    window.show()
    talk.start()

    def ask(text: str, replies: int) -> None:
        window.composer.set_text(text)
        window.composer.submitted.emit(text)
        qtbot.waitUntil(
            lambda: bool(problems) or (talk.state is EngineState.IDLE and len(done) == replies), timeout=120_000
        )
        assert problems == []

    done: list[object] = []
    talk.reply_finished.connect(lambda row, finished: done.append(row))
    try:
        qtbot.waitUntil(lambda: bool(problems) or talk.state is EngineState.IDLE, timeout=120_000)
        assert problems == []
        ask(f"Repeat this sentence twice: {SENTENCE}.", 1)
        ask("Repeat it once more, word for word.", 2)
        assert talk.chat is not None
        messages = store.messages(talk.chat.id)
        assert [m.role for m in messages] == ["user", "assistant", "user", "assistant"]
        assert [m.state for m in messages if m.role == "assistant"] == ["done", "done"]
        assert "Ada" in messages[1].text
        for reply in (messages[1], messages[3]):
            assert "".join(s.text for s in reply.spans) == reply.text
        drafted = [s for reply in (messages[1], messages[3]) for s in reply.spans if s.drafter in ("suffix", "lookup")]
        assert drafted  # words that were proposed are marked as its own
    finally:
        pid = client.pid
        window.close()
        store.close()
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()  # no engine is left behind
