"""Files of older formats keep everything; the full-text index follows what is in the tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from desktop import schema
from desktop.schema import VERSION, bring_up
from desktop.search import Search
from desktop.store import CUT, Store


def old_file(path: Path) -> None:
    """A file as the first version wrote it, with a chat that has branches, a reply being written, and rounds."""
    c = sqlite3.connect(path, isolation_level=None)
    for statement in schema._FIRST:
        c.execute(statement)
    c.execute("PRAGMA user_version=1")
    c.execute("INSERT INTO chats VALUES (1, 'Übersicht', 1.0, 3.0, 3, 'not sent')")
    c.execute("INSERT INTO chats VALUES (4, '', 2.0, 2.0, NULL, '')")
    insert = (
        "INSERT INTO messages (id, chat_id, parent_id, role, text, runs, state, created) VALUES (?,1,?,?,?,?,?,1.5)"
    )
    c.execute(insert, (1, None, "user", "Where is the harbour?", "[]", "done"))
    c.execute(insert, (2, 1, "assistant", "By the sea", '[[6, "lookup"], [4, null]]', "done"))
    c.execute(insert, (3, 1, "assistant", "Near the bridge", "[]", "writing"))
    c.execute("INSERT INTO rounds VALUES (2, 0, '[]')")
    c.close()


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as c:
        lines = list(c.iterdump())
    c.close()
    return lines


def test_an_old_file_keeps_everything(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    old_file(path)
    store = Store(path)
    assert [(c.id, c.title, c.created, c.updated) for c in store.chats()] == [
        (1, "Übersicht", 1.0, 3.0),
        (4, "", 2.0, 2.0),
    ]
    assert not any(c.pinned or c.folder or c.incognito for c in store.chats())
    assert store.composer_draft(1) == "not sent"
    assert [m.text for m in store.messages(1)] == ["Where is the harbour?", "Near the bridge"]
    assert store.siblings(2) == [2, 3]
    cut = store.message(3)
    assert cut is not None
    assert (cut.state, cut.note) == ("cut", CUT)
    done = store.message(2)
    assert done is not None
    assert [(s.text, s.drafter) for s in done.spans] == [("By the", "lookup"), (" sea", None)]
    assert store.rounds(2) == []
    search = Search(store)
    assert [h.message for h in search.find("harbour").hits] == [1]
    assert [h.message for h in search.find("bridge").hits] == [3]
    assert [h.chat for h in search.find("ubersicht").hits] == [1]
    store.close()
    Store(path).close()  # and a second time, with nothing left to do
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA user_version").fetchone()[0] == VERSION
    c.close()


def test_a_migration_is_done_wholly_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chats.db"
    old_file(path)
    before = dump(path)
    c = sqlite3.connect(path, isolation_level=None)
    monkeypatch.setitem(schema._STEPS, 1, (*schema._SECOND, "CREATE TABLE chats (x)"))
    c.execute("BEGIN")
    with pytest.raises(sqlite3.OperationalError):
        bring_up(c)
    c.execute("ROLLBACK")
    c.close()
    assert dump(path) == before


def test_the_index_follows(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    search = Search(store)
    chat = store.new_chat("Boats")
    row = store.add_message(chat.id, None, "assistant", "a red", "writing")
    assert not search.find("red").hits
    store.finish(row.id, "done")
    assert search.find("red").hits
    store.finish(row.id, "cut")
    store.rename_chat(chat.id, "Ships")
    assert not search.find("boats").hits
    assert search.find("ships").hits
    store.change(lambda c: c.execute("DELETE FROM chats WHERE id=?", (chat.id,)))
    assert not search.find("red").hits
    for table in ("message_words", "title_words"):
        store.change(lambda c, t=table: c.execute(f"INSERT INTO {t}({t}, rank) VALUES ('integrity-check', 1)"))
    store.close()
