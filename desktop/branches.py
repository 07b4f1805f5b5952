"""Branches: the messages that stand beside each other in a chat, and replies that begin as another one.

An edit, another try and a reply that is continued are all siblings of what was there, which stays as it was. Knows
the store's tables; no widget, no engine.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import asdict, replace

from desktop.store import MessageRow, Store, plain
from mlx_spec.events import DrafterStats, Finished, Round, Span

EDITED = "Edited by hand."


def branches(store: Store, chat_id: int) -> dict[int, tuple[int, ...]]:
    """By message: it and all that stand beside it, oldest first; only where there is more than one."""
    beside: dict[tuple[int | None, str], list[int]] = {}
    sql = "SELECT id, parent_id, role FROM messages WHERE chat_id=? ORDER BY id"
    for number, parent, role in store.read(sql, (chat_id,), chat_id):
        beside.setdefault((parent, role), []).append(number)
    return {number: tuple(ids) for ids in beside.values() if len(ids) > 1 for number in ids}


def leaf_of(store: Store, chat_id: int, message_id: int) -> int:
    """The end of the newest branch that goes through a message."""
    sql = "SELECT id, parent_id FROM messages WHERE chat_id=? AND parent_id IS NOT NULL ORDER BY id"
    children = {parent: number for number, parent in store.read(sql, (chat_id,), chat_id)}
    leaf = message_id
    while leaf in children:
        leaf = children[leaf]
    return leaf


def can_go_on(row: MessageRow) -> bool:
    """Whether a reply ended before its own end, so that it can be continued."""
    if row.role != "assistant" or not row.text.strip() or row.state == "writing":
        return False
    cut = row.stats is not None and row.stats.reason in ("length", "stopped", "context")
    return cut or row.state in ("stopped", "cut", "failed") or row.note == EDITED


def rewrite(store: Store, row: MessageRow, text: str) -> MessageRow:
    """A sibling of a reply with another text, which is shown from now on. On the disk when this returns."""
    now, text = time.time(), plain(text)

    def job(c: sqlite3.Connection) -> int:
        return _insert(c, row, text, "[]", "done", EDITED, now)

    number = store.change(job, row.chat_id)
    made = store.message(number)
    assert made is not None
    return made


def fork(store: Store, row: MessageRow, model: str) -> tuple[MessageRow, int]:
    """A sibling of a reply that begins with all of its text and waits for more; and how many rounds that has.

    Who drafted what comes along. On the disk when this returns.
    """
    now, note = time.time(), row.note if row.note == EDITED else ""
    rounds = store.rounds(row.id)
    said = "".join(s.text for r in rounds for s in r.spans)
    if not row.text.startswith(said):
        rounds, said = [], ""
    if said != row.text:  # what was held back until the end, or was typed
        rounds.append(_given(row.text[len(said) :]))
    rounds = [replace(r, index=k) for k, r in enumerate(rounds)]
    data = json.dumps([asdict(r) for r in rounds], separators=(",", ":"))

    def job(c: sqlite3.Connection) -> int:
        (runs,) = c.execute("SELECT runs FROM messages WHERE id=?", (row.id,)).fetchone()
        missing = len(row.text) - sum(length for length, _ in json.loads(runs))
        if missing > 0:
            runs = json.dumps([*json.loads(runs), [missing, None]])
        number = _insert(c, row, row.text, runs, "writing", note, now, model)
        c.execute("INSERT INTO rounds VALUES (?, 0, ?)", (number, data))
        return number

    number = store.change(job, row.chat_id)
    fresh = store.message(number)
    assert fresh is not None
    return fresh, len(rounds)


def _insert(
    c: sqlite3.Connection, row: MessageRow, text: str, runs: str, state: str, note: str, now: float, model: str = ""
) -> int:
    number = c.execute(
        "INSERT INTO messages (chat_id, parent_id, role, text, runs, state, note, model, created)"
        " VALUES (?,?,?,?,?,?,?,?,?)",
        (row.chat_id, row.parent_id, row.role, text, runs, state, note, model or row.model, now),
    ).lastrowid
    c.execute("UPDATE chats SET head=?, updated=? WHERE id=?", (number, now, row.chat_id))
    return int(number or 0)


def _given(text: str) -> Round:
    """A round of no pass: text that was there before."""
    return Round(0, 0, 0, None, (), (), 0, (), (Span(text),), 0, 0.0, 0.0, 0.0)


def joined(earlier: Finished | None, now: Finished) -> Finished:
    """The figures of a reply that was written in two goes. Its prompt's and its end are the second's."""
    if earlier is None:
        return now
    by = dict(earlier.by_drafter)
    for name, more in now.by_drafter.items():
        was = by.get(name, DrafterStats())
        by[name] = DrafterStats(was.rounds + more.rounds, was.drafted + more.drafted, was.accepted + more.accepted)
    return replace(
        now,
        tokens=earlier.tokens + now.tokens,
        passes=earlier.passes + now.passes,
        decode_s=earlier.decode_s + now.decode_s,
        by_drafter=by,
    )
