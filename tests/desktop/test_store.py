from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from desktop.schema import VERSION
from desktop.store import CUT, Store
from mlx_spec.events import DrafterStats, Finished, Problem, Span
from tests.fakes import rounds

FINISHED = Finished(1, "stop", (), 5, 10, 4, 3, 0.1, 0.2, 1.0, 7, 0.02, {"lookup": DrafterStats(1, 2, 1)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "chats.db")
    yield store
    store.close()


def reply(store: Store, seed: int = 0, tokens: int = 40) -> int:
    import random

    chat = store.new_chat("a")
    asked = store.add_message(chat.id, None, "user", "Hello")
    row = store.add_message(chat.id, asked.id, "assistant", "", "writing", "fake")
    made = rounds(1, tokens, ("lookup", "model"), random.Random(seed))
    for i in range(0, len(made), 3):
        store.append_rounds(row.id, made[i : i + 3])
    store.flush()
    message = store.message(row.id)
    assert message is not None
    assert message.text == "".join(s.text for r in made for s in r.spans)
    assert store.rounds(row.id) == made
    return row.id


def test_a_reply_and_its_rounds_come_back(store: Store) -> None:
    number = reply(store)
    row = store.finish(number, "done", "", FINISHED, (Span("!"),))
    assert row.state == "done"
    assert row.stats == FINISHED
    assert row.text.endswith("!")
    assert "".join(s.text for s in row.spans) == row.text
    assert {s.drafter for s in row.spans} == {None, "lookup", "model"}


def test_edits_are_siblings(store: Store) -> None:
    chat = store.new_chat()
    a = store.add_message(chat.id, None, "user", "first")
    b = store.add_message(chat.id, a.id, "assistant", "reply")
    c = store.add_message(chat.id, None, "user", "second")
    assert [m.text for m in store.messages(chat.id)] == ["second"]
    store.set_head(chat.id, b.id)
    assert [m.text for m in store.messages(chat.id)] == ["first", "reply"]
    assert store.siblings(a.id) == [a.id, c.id]


def test_chats(store: Store) -> None:
    a, b = store.new_chat("a"), store.new_chat("b")
    store.add_message(a.id, None, "user", "x")
    assert [c.title for c in store.chats()] == ["a", "b"]
    store.rename_chat(b.id, "c")
    store.set_composer_draft(b.id, "not sent \ud800\0yet")
    assert store.composer_draft(b.id) == "not sent \ufffdyet"
    assert [c.title for c in store.chats()] == ["a", "c"]


def test_a_cut_reply_is_marked_when_opened_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    number = reply(store)
    store.close()
    store = Store(tmp_path / "chats.db")
    row = store.message(number)
    assert row is not None
    assert (row.state, row.note) == ("cut", CUT)
    assert row.text
    store.close()


def test_a_newer_file_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    Store(path).close()
    with sqlite3.connect(path) as c:
        c.execute(f"PRAGMA user_version={VERSION + 1}")
    c.close()
    before = path.read_bytes()
    with pytest.raises(Problem, match="newer") as e:
        Store(path)
    assert str(path) in e.value.message
    assert path.read_bytes() == before


def test_a_damaged_file_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    path.write_bytes(b"this is no database at all" * 100)
    store = Store(path)
    assert store.chats() == []
    assert "damaged" in store.notices[0]
    assert len(list(tmp_path.glob("chats.broken-*.db"))) == 1
    store.close()


def test_a_write_that_cannot_be_done_is_told_and_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desktop.store.RETRY_S", 0.05)
    told: list[Problem] = []
    store.on_problem = told.append
    chat = store.new_chat("a")
    fails = [2]

    def job(c: sqlite3.Connection) -> str:
        if fails[0]:
            fails[0] -= 1
            raise sqlite3.OperationalError("database or disk is full")
        c.execute("UPDATE chats SET title='written' WHERE id=?", (chat.id,))
        return "done"

    assert store.write(job).result(5) == "done"
    assert len(told) == 1
    assert "full" in told[0].message
    assert store.chats()[0].title == "written"


def test_a_long_chat_opens_at_once(store: Store) -> None:
    import random

    chat = store.new_chat("long")
    parent = None
    made = rounds(1, 300, ("lookup", "model"), random.Random(1))
    for _ in range(100):
        parent = store.add_message(chat.id, parent, "user", "question").id
        parent = store.add_message(chat.id, parent, "assistant", "", "writing").id
        store.append_rounds(parent, made)
    store.flush()
    began = time.perf_counter()
    assert len(store.messages(chat.id)) == 200
    assert time.perf_counter() - began < 0.5  # about 15 ms on an idle machine


def test_a_killed_writer_loses_only_what_it_had_not_committed(tmp_path: Path) -> None:
    code = """
import random, sys, time
from pathlib import Path
from desktop.store import Store
from tests.fakes import rounds
store = Store(Path(sys.argv[1]))
chat = store.new_chat("a")
row = store.add_message(chat.id, None, "assistant", "", "writing")
for r in rounds(1, 4000, ("lookup",), random.Random(0)):
    store.append_rounds(row.id, [r])
    store.flush()
    print(len(r.spans[-1].text), flush=True)
"""
    path = tmp_path / "chats.db"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(30):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    more = len(process.stdout.readlines())
    process.wait()
    store = Store(path)
    (row,) = store.messages(store.chats()[0].id)
    assert len(store.rounds(row.id)) in (30 + more, 31 + more)
    assert row.text == "".join(s.text for r in store.rounds(row.id) for s in r.spans)
    store.close()
    process.stdout.close()


def test_another_thread_reads_beside_the_window(store: Store) -> None:
    chat = store.new_chat("quiet", incognito=True)
    store.new_chat("plain")
    with ThreadPoolExecutor(1) as other:
        assert [c.title for c in other.submit(store.chats).result()] == ["quiet", "plain"]
        store.rename_chat(chat.id, "quieter")
        assert other.submit(store.chat, chat.id).result() == store.chat(chat.id)
        store.close()
        with pytest.raises(Problem, match="closed"):
            other.submit(store.chats).result()
