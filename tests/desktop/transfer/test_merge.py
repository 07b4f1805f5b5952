"""Importing the same chats again adds nothing; what is new is added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from desktop.shelf import Shelf
from desktop.store import Store
from desktop.transfer.bundle import Piece, take
from desktop.transfer.merge import Added, add
from tests.desktop.transfer.samples import branched


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "chats.db")
    yield store
    store.close()


def test_what_is_there_is_not_added_again(store: Store) -> None:
    chat = branched(store)
    bundle = take(store, chat)
    assert add(store, [bundle]) == Added((), 1)
    # The chat has been gone on with since it was exported.
    head = store.messages(chat)[-1]
    store.add_message(chat, head.id, "user", "One more")
    assert add(store, [bundle]).known == 1
    # The file knows more than the chat here.
    longer = replace(bundle, pieces=(*bundle.pieces, Piece(10**6, None, "user", "Unheard of")))
    other = replace(bundle, created=bundle.created + 1)
    added = add(store, [longer, other, other])
    assert (len(added.chats), added.known) == (2, 1)
    assert add(store, [longer, other]) == Added((), 2)


def test_a_chat_in_the_trash_is_not_there(store: Store) -> None:
    chat = branched(store)
    bundle = take(store, chat)
    Shelf(store).trash(chat)
    assert len(add(store, [bundle]).chats) == 1


@pytest.mark.parametrize(
    ("made", "known", "words"),
    [
        (12, 1, "12 chats imported, 1 was there already."),
        (1, 0, "1 chat imported."),
        (1200, 3, "1,200 chats imported, 3 were there already."),
        (0, 1, "The chat was there already."),
        (0, 2, "All 2 chats were there already."),
    ],
)
def test_words(made: int, known: int, words: str) -> None:
    assert Added(tuple(range(made)), known).words == words
