"""Siblings in the database: edits, tries and continued replies overwrite nothing and carry their drafts along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from desktop.branches import EDITED, branches, can_go_on, fork, joined, leaf_of, rewrite
from desktop.store import Store
from mlx_spec.events import DrafterStats, Finished, Span
from tests.desktop.window_engine import a_round, finished


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "chats.db")
    yield made
    made.close()


def talk(store: Store) -> tuple[int, int, int]:
    """A chat with one question and one reply of two rounds and a tail, stopped."""
    chat = store.new_chat("Boats")
    asked = store.add_message(chat.id, None, "user", "Which?")
    reply = store.add_message(chat.id, asked.id, "assistant", "", "writing", "Tiny")
    store.append_rounds(reply.id, [a_round(1, 0), a_round(1, 1)])
    store.finish(reply.id, "stopped", "", finished(1, 2, "stopped"), (Span(" end", "lookup"),))
    return chat.id, asked.id, reply.id


def test_siblings_by_place(store: Store) -> None:
    chat, asked, reply = talk(store)
    assert branches(store, chat) == {}
    other = store.add_message(chat, asked, "assistant", "Another.")
    again = store.add_message(chat, None, "user", "Who?")
    assert branches(store, chat) == {
        reply: (reply, other.id),
        other.id: (reply, other.id),
        asked: (asked, again.id),
        again.id: (asked, again.id),
    }
    deeper = store.add_message(chat, reply, "user", "More")
    assert leaf_of(store, chat, reply) == deeper.id
    assert leaf_of(store, chat, asked) == other.id  # the newest way from there
    assert [row.id for row in store.messages(chat, reply)] == [asked, reply]


def test_an_edited_reply_stands_beside_the_old_one(store: Store) -> None:
    chat, asked, reply = talk(store)
    before = store.message(reply)
    assert before is not None
    made = rewrite(store, before, "By hand\0 \ud800")
    assert store.message(made.id) == made
    assert (made.text, made.note, made.model, made.state) == ("By hand \ufffd", EDITED, "Tiny", "done")
    assert store.message(reply) == before
    assert [row.id for row in store.messages(chat)] == [asked, made.id]
    assert can_go_on(made)


def test_a_fork_has_text_drafts_and_rounds(store: Store) -> None:
    _, _, reply = talk(store)
    before, rounds = store.message(reply), store.rounds(reply)
    assert before is not None
    fresh, count = fork(store, before, "Other")
    assert fresh.state == "writing"
    assert fresh.model == "Other"
    assert (fresh.text, fresh.spans) == (before.text, before.spans)
    assert (store.message(reply), store.rounds(reply)) == (before, rounds)
    copied = store.rounds(fresh.id)
    assert count == len(copied) == 3
    assert copied[:2] == rounds
    assert "".join(s.text for r in copied for s in r.spans) == before.text  # the tail has a round of its own
    assert [r.index for r in copied] == [0, 1, 2]
    store.append_rounds(fresh.id, [replace(a_round(2, 0), index=3)])
    store.finish(fresh.id, "done", "")
    row = store.message(fresh.id)
    assert row is not None
    assert row.text == before.text + " one two four"
    assert "".join(s.text for s in row.spans) == row.text
    assert len(store.rounds(fresh.id)) == 4


def test_an_edited_reply_can_be_forked(store: Store) -> None:
    _, _, reply = talk(store)
    before = store.message(reply)
    assert before is not None
    fresh, count = fork(store, rewrite(store, before, "Short"), "Tiny")
    assert (fresh.text, count, fresh.note) == ("Short", 1, EDITED)
    store.append_rounds(fresh.id, [replace(a_round(2, 0), index=1)])
    store.flush()
    row = store.message(fresh.id)
    assert row is not None
    assert [s.drafter for s in row.spans] == [None, "lookup", None]
    assert "".join(s.text for s in row.spans) == "Short one two four"


def test_which_replies_can_go_on(store: Store) -> None:
    _, _, reply = talk(store)
    row = store.message(reply)
    assert row is not None
    assert can_go_on(row)
    assert can_go_on(replace(row, state="done", stats=finished(1, 2, "length")))
    assert can_go_on(replace(row, state="cut", stats=None))
    assert not can_go_on(replace(row, state="done", stats=finished(1, 2, "stop")))
    assert not can_go_on(replace(row, state="writing"))
    assert not can_go_on(replace(row, text=" "))
    assert not can_go_on(replace(row, role="user"))


def test_figures_of_two_goes() -> None:
    first, second = finished(1, 2, "length"), finished(2, 3, "stop")
    both = joined(first, second)
    assert (both.tokens, both.passes, both.reason) == (15, 5, "stop")
    assert both.by_drafter == {"lookup": DrafterStats(5, 15, 10)}
    assert joined(None, second) is second
    assert isinstance(both, Finished)
