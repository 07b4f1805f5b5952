"""Folders, pins, the trash and incognito chats, in the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from desktop.search import Search
from desktop.shelf import Counts, Shelf
from desktop.store import INCOGNITO, KEPT_S, Store
from mlx_spec.events import Problem, Span


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "chats.db")
    yield store
    store.close()


@pytest.fixture
def shelf(store: Store) -> Shelf:
    return Shelf(store)


def test_folders(store: Store, shelf: Shelf) -> None:
    chat = store.new_chat("a")
    work, art = shelf.new_folder(" Work \n now "), shelf.new_folder("art")
    assert [f.name for f in shelf.folders()] == ["art", "Work now"]
    assert shelf.new_folder("art") == art
    shelf.move(chat.id, work.id)
    assert store.chats()[0].folder == work.id
    shelf.move(chat.id, art.id)
    assert store.chats()[0].folder == art.id
    shelf.rename_folder(art.id, "Paintings")
    with pytest.raises(Problem, match="already"):
        shelf.rename_folder(work.id, "Paintings")
    with pytest.raises(Problem, match="needs a name"):
        shelf.new_folder(" \0 ")
    shelf.remove_folder(art.id)
    assert [f.name for f in shelf.folders()] == ["Work now"]
    assert store.chats()[0].folder is None
    shelf.move(chat.id, None)


def test_pins_and_counts(store: Store, shelf: Shelf) -> None:
    a, b = store.new_chat("a"), store.new_chat("b")
    store.add_message(a.id, None, "user", "x")
    shelf.pin(b.id, True)
    assert [(c.title, c.pinned) for c in store.chats()] == [("a", False), ("b", True)]
    shelf.trash(b.id)
    assert shelf.counts() == Counts(chats=1, messages=1, folders=0, trashed=1)
    shelf.restore(b.id)
    shelf.pin(b.id, False)
    assert not any(c.pinned for c in store.chats())


def test_the_trash_is_out_of_sight_until_it_is_brought_back(store: Store, shelf: Shelf) -> None:
    a, b = store.new_chat("alpha"), store.new_chat("beta")
    store.add_message(a.id, None, "user", "something said")
    shelf.trash(a.id)
    assert [c.id for c in store.chats()] == [b.id]
    assert store.chat(a.id) is None
    assert not Search(store).find("said").hits
    assert not Search(store).find("alpha").hits
    shelf.trash(b.id)
    assert shelf.trashed() == [b.id, a.id]
    shelf.restore(a.id)
    assert [m.text for m in store.messages(a.id)] == ["something said"]
    assert Search(store).find("said").hits
    assert shelf.trashed() == [b.id]


def test_the_trash_is_there_after_a_start_and_empties_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    a, b, c = store.new_chat("a"), store.new_chat("b"), store.new_chat("c")
    row = store.add_message(b.id, None, "user", "gone for good")
    for chat in (b, c):
        Shelf(store).trash(chat.id)
    month = time.time() - KEPT_S - 60
    store.change(lambda db: db.execute("UPDATE chats SET deleted=? WHERE id=?", (month, b.id)))
    store.close()
    store = Store(tmp_path / "chats.db")
    shelf = Shelf(store)
    assert [chat.id for chat in store.chats()] == [a.id]
    assert shelf.trashed() == [c.id]
    assert store.message(row.id) is None
    assert shelf.owed() == [b.id]
    shelf.remove([c.id])
    # Its number is not given again while the engine may keep replies under it.
    assert store.new_chat().id == c.id + 1
    shelf.settle(shelf.owed())
    store.flush()
    assert shelf.owed() == []
    store.close()


def test_removing_for_good_is_for_the_trash_alone(store: Store, shelf: Shelf) -> None:
    a, b = store.new_chat("alpha"), store.new_chat("beta")
    store.add_message(b.id, None, "user", "said")
    shelf.trash(b.id)
    (row,) = shelf.trash_list()
    assert (row.id, row.title, row.messages) == (b.id, "beta", 1)
    shelf.remove([a.id, b.id])
    assert [chat.id for chat in store.chats()] == [a.id]
    assert shelf.trash_list() == []
    assert shelf.owed() == [b.id]


def test_thirty_days_in_the_trash(store: Store, shelf: Shelf) -> None:
    a, b = store.new_chat("a"), store.new_chat("b")
    for chat in (a, b):
        shelf.trash(chat.id)
    store.change(lambda c: c.execute("UPDATE chats SET deleted=? WHERE id=?", (time.time() - 31 * 86400, a.id)))
    assert shelf.remove_old() == [a.id]
    assert shelf.remove_old() == []
    assert shelf.trashed() == [b.id]
    assert shelf.owed() == [a.id]


def test_incognito_is_in_memory_only(tmp_path: Path, store: Store, shelf: Shelf) -> None:
    shown = store.new_chat("shown")
    chat = store.new_chat(incognito=True)
    assert chat.incognito
    assert chat.id > INCOGNITO
    asked = store.add_message(chat.id, None, "user", "a quiet xylophone")
    reply = store.add_message(chat.id, asked.id, "assistant", "", "writing")
    row = store.finish(reply.id, "done", tail=(Span("a loud zither", "lookup"),))
    assert [s.drafter for s in row.spans] == ["lookup"]
    store.rename_chat(chat.id, "secret quagga")
    store.set_composer_draft(chat.id, "half a wombat")
    assert store.composer_draft(chat.id) == "half a wombat"
    assert [c.id for c in store.chats()] == [chat.id, shown.id]
    assert [m.text for m in store.messages(chat.id)] == ["a quiet xylophone", "a loud zither"]
    assert store.siblings(reply.id) == [reply.id]
    assert [h.chat for h in Search(store).find("xylo").hits] == [chat.id]
    with pytest.raises(Problem, match="incognito"):
        shelf.move(chat.id, None)
    assert shelf.counts().chats == 1
    shelf.trash(chat.id)
    assert shelf.trashed() == [chat.id]
    shelf.restore(chat.id)
    assert shelf.trashed() == []
    shelf.remove_incognito(chat.id)  # not in the trash
    assert store.chat(chat.id) is not None
    shelf.trash(chat.id)
    shelf.remove_incognito(chat.id)
    assert shelf.trashed() == []
    assert shelf.owed() == []
    store.new_chat(incognito=True)
    store.close()
    written = b"".join(p.read_bytes() for p in tmp_path.iterdir() if p.is_file())
    assert b"shown" in written
    for word in (b"xylophone", b"zither", b"quagga", b"wombat"):
        assert word not in written
    again = Store(tmp_path / "chats.db")
    assert [c.id for c in again.chats()] == [shown.id]
    again.close()
