"""Chats taken out and put in again lose nothing; what is put in goes in wholly or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from desktop.shelf import Shelf
from desktop.store import INCOGNITO, Store
from desktop.transfer.bundle import Bundle, Piece, check, duplicate, path_of, put, take
from mlx_spec.events import Problem
from tests.desktop.transfer.samples import branched


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "chats.db")
    yield store
    store.close()


def bare(bundle: Bundle) -> Bundle:
    """A bundle with its messages numbered from 0, to be compared."""
    order = {piece.id: k for k, piece in enumerate(bundle.pieces)}
    pieces = tuple(
        replace(p, id=order[p.id], parent=None if p.parent is None else order[p.parent]) for p in bundle.pieces
    )
    return replace(bundle, pieces=pieces, head=None if bundle.head is None else order[bundle.head])


def test_out_and_in_again(store: Store) -> None:
    chat = branched(store)
    shelf = Shelf(store)
    shelf.move(chat, shelf.new_folder("Work").id)
    shelf.pin(chat, True)
    bundle = take(store, chat)
    assert [p.text for p in path_of(bundle)] == ["Say <b>hello</b> & more", "Hello **there**!", "Again"]
    assert bundle.pieces[1].rounds
    (number,) = put(store, [bundle])
    assert bare(take(store, number)) == bare(bundle)
    assert [f.name for f in shelf.folders()] == ["Work"]


def test_a_duplicate_stands_beside_its_chat_and_apart(store: Store) -> None:
    chat = branched(store)
    number = duplicate(store, chat)
    assert store.chats()[0].title == "Two ways (copy)"
    old, new = take(store, chat), take(store, number)
    assert bare(new).pieces == bare(old).pieces
    store.add_message(number, new.head, "assistant", "only here")
    assert len(store.messages(chat)) == 3
    secret = store.new_chat("s", incognito=True)
    store.add_message(secret.id, None, "user", "psst")
    assert duplicate(store, secret.id) > INCOGNITO


def test_a_chat_that_is_gone(store: Store) -> None:
    chat = branched(store)
    Shelf(store).trash(chat)
    with pytest.raises(Problem, match="not there"):
        take(store, chat)


def test_all_or_nothing(store: Store) -> None:
    fine = Bundle("fine", 1.0, 1.0, (Piece(1, None, "user", "x"),), 1)
    wrong = Bundle("wrong", 1.0, 1.0, (Piece(1, None, "user", "x", note=[]),), 1)  # type: ignore[arg-type]
    with pytest.raises(Problem, match="could not be added"):
        put(store, [fine, wrong])
    assert store.chats() == []
    assert put(store, [fine, fine])


@pytest.mark.parametrize(
    ("pieces", "head"),
    [
        ([Piece(1, None, "user", "x"), Piece(1, None, "user", "x")], 1),
        ([Piece(2, 1, "user", "x"), Piece(1, None, "user", "x")], 1),
        ([Piece(1, 1, "user", "x")], 1),
        ([Piece(1, None, "tool", "x")], 1),
        ([Piece(1, None, "user", "x", state="writing")], 1),
        ([Piece(1, None, "assistant", "x", runs=((2, "lookup"),))], 1),
        ([Piece(1, None, "user", "x")], 2),
    ],
)
def test_what_does_not_hang_together_is_refused(pieces: list[Piece], head: int) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        check(Bundle("", 0.0, 0.0, tuple(pieces), head))
