"""What fills the context, counted or estimated; and which turns go when it is full."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from desktop.attachments import Attachment, fenced, join
from desktop.context import Full, TokenCounter, Tokens, fitting, rounded
from desktop.room import Room
from desktop.store import ChatRow, MessageRow
from mlx_spec.events import Count, Counted, Message

CHAT = ChatRow(1, "", 0.0, 0.0)


class Engine:
    """Counts words, when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Count] = []
        self.counter = TokenCounter(self.asked.append)

    def answer(self) -> None:
        while self.asked:
            request = self.asked.pop(0)
            self.counter.take(Counted(request.request, tuple(len(t.split()) for t in request.texts)))


def row(number: int, role: str, text: str) -> MessageRow:
    return MessageRow(number, 1, None, role, text, "done", 0.0)


def test_words_for_a_count() -> None:
    assert Tokens(1204).words() == "1,204 tokens"
    assert Tokens(1204, exact=False).words() == "about 1,200 tokens"
    assert [rounded(n) for n in (0, 7, 42, 123, 98_765)] == [0, 7, 42, 120, 99_000]


def test_an_estimate_until_the_engine_counted(qtbot: QtBot) -> None:
    engine = Engine()
    room = Room(engine.counter)
    text = "one two three four five six " * 20
    assert not engine.counter.count(text).exact
    qtbot.wait(200)
    assert engine.asked == []  # no model: nobody to ask
    room.set_model(100)
    with qtbot.waitSignal(engine.counter.changed, raising=False, timeout=1):
        pass
    guess = engine.counter.count(text)
    assert not guess.exact
    assert 80 < guess.number < 200
    qtbot.waitUntil(lambda: len(engine.asked) == 1)
    with qtbot.waitSignal(engine.counter.changed):
        engine.answer()
    assert engine.counter.count(text) == Tokens(120)
    assert engine.counter.count("one two three four five six " * 10).number == 60  # what was learned of this model
    engine.counter.take(Counted(99, (1, 2)))  # of nobody's asking
    room.set_model(200)
    assert not engine.counter.count(text).exact


def test_the_template_around_messages_is_learned(qtbot: QtBot) -> None:
    engine = Engine()
    engine.counter.reset(ready=True)
    said = [Message("user", "one two three"), Message("assistant", "four")]
    for message in said:
        engine.counter.count(message.content)
    engine.counter.learn(said, 100)
    assert engine.counter.message("one two three").number > 6  # estimates teach nothing
    qtbot.waitUntil(lambda: bool(engine.asked))
    engine.answer()
    engine.counter.learn(said, 4 + 2 * 6 + 20)
    assert engine.counter.message("one two three") == Tokens(9)
    assert engine.counter.fixed == 20  # a template's own words, once
    engine.counter.learn([*said, *said], 8 + 4 * 5 + 22)
    assert (engine.counter.message("one two three").number, engine.counter.fixed) == (3 + 5, 22)
    engine.counter.learn([Message("system", "four"), *said], 5 + 3 * 5)
    assert engine.counter.fixed == 0  # with a system prompt it says nothing


def test_files_are_counted_apart_and_once(qtbot: QtBot) -> None:
    engine = Engine()
    engine.counter.reset(ready=True)
    file = Attachment("a.txt", "alpha beta")
    text = join([file], "what is it")
    engine.counter.message(text)
    qtbot.waitUntil(lambda: bool(engine.asked))
    assert sorted(engine.asked[0].texts) == sorted([fenced(file), "what is it"])
    engine.counter.learn([Message("user", text)], len(fenced(file).split()) + 3 + 20)
    engine.answer()  # late, since it was writing
    assert engine.counter.message("what is it") == Tokens(3 + 6)
    assert engine.counter.fixed == 14


def test_what_fills_it(qtbot: QtBot) -> None:
    engine = Engine()
    room = Room(engine.counter)
    room.set_model(200)
    room.set_system("be brief please")
    file = Attachment("a.txt", "alpha beta gamma")
    room.chat_opened(CHAT, [row(1, "user", join([file], "what is it")), row(2, "assistant", "three greek letters")])
    room.filling("and now")
    qtbot.waitUntil(lambda: bool(engine.asked))
    engine.answer()
    filled = room.filling("and now")
    around = 6
    assert filled.system == Tokens(3 + around)
    assert filled.history == Tokens(3 + 3 + 2 * around)
    assert filled.attachments == Tokens(len(fenced(file).split()))
    assert filled.draft == Tokens(2 + around)
    assert filled.length == 200
    assert filled.used.exact
    assert not filled.full
    room.message_added(row(3, "user", "word " * 300))
    assert room.filling().full


def turns(*words: int) -> list[Message]:
    return [Message("user" if k % 2 == 0 else "assistant", "w " * n) for k, n in enumerate(words)]


def counted(counter: TokenCounter, messages: list[Message]) -> None:
    counter.reset(ready=True)
    texts = [m.content for m in messages]
    for text in texts:
        counter.count(text)
    counter._ask()


def test_the_oldest_turns_go_a_quarter_at_once() -> None:
    engine = Engine()
    messages = [Message("system", "s " * 10), *turns(100, 100, 100, 100, 100, 100, 50)]
    counted(engine.counter, messages)
    engine.answer()
    assert fitting(engine.counter, messages, 2000) == 0
    gone = fitting(engine.counter, messages, 600)
    left = [messages[0], *messages[1 + gone :]]
    assert left[1].role == "user"
    assert sum(engine.counter.message(m.content).number for m in left) <= 450
    assert fitting(engine.counter, left, 600) == 0
    with pytest.raises(Full, match="This message has about 72") as caught:
        fitting(engine.counter, messages, 60)
    assert not caught.value.can_drop


def test_nothing_is_left_out_before_it_was_agreed_to() -> None:
    engine = Engine()
    room = Room(engine.counter)
    messages = turns(100, 100, 100, 100, 30)
    counted(engine.counter, messages)
    engine.answer()
    assert room.fit(1, messages, "", 1000) == messages
    assert room.fit(1, messages, "", 0) == messages  # no model that could tell
    with pytest.raises(Full, match="This chat is full") as caught:
        room.fit(1, messages, "", 300)
    assert caught.value.can_drop
    room.agree(1)
    kept = room.fit(1, messages, "", 300)
    assert kept == messages[4:]
    again = [*messages, Message("assistant", "w "), Message("user", "w ")]
    assert room.fit(1, again, "", 300)[: len(kept)] == kept  # the same beginning: the cache holds
    with pytest.raises(Full):
        room.fit(2, messages, "", 300)  # another chat
    assert room.fit(1, messages[:2], "", 1000) == messages[:2]  # fits again
