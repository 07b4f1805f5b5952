"""A whole chat outside the database: every branch, who drafted what, rounds and figures; taken out and put in.

What is put in goes in wholly or not at all. Duplicating a chat is taking it out and putting it in again. Knows the
store's tables and events; does not know files or formats.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from desktop.store import INCOGNITO, Store
from mlx_spec.events import Finished, Problem, Round

STATES = ("done", "stopped", "failed", "cut")
ROLES = ("system", "user", "assistant")
WAIT_S = 600.0  # for a large import


@dataclass(frozen=True, slots=True)
class Piece:
    """One message. `parent` is another piece's `id` in the same bundle; `runs` are [length, drafter]."""

    id: int
    parent: int | None
    role: str
    text: str
    state: str = "done"
    note: str = ""
    model: str = ""
    created: float = 0.0
    runs: tuple[tuple[int, str | None], ...] = ()
    stats: Finished | None = None
    rounds: tuple[Round, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundle:
    """One chat. A piece comes after its parent; `head` is the leaf that is shown; `folder` is a folder's name.

    `own` is the JSON of what the chat has of its own (see `desktop.own`).
    """

    title: str
    created: float
    updated: float
    pieces: tuple[Piece, ...] = field(default=())
    head: int | None = None
    folder: str = ""
    pinned: bool = False
    own: str = ""


def check(bundle: Bundle) -> None:
    """Raises ValueError with a few words where a bundle does not hang together."""
    known: set[int] = set()
    for piece in bundle.pieces:
        if piece.id in known:
            raise ValueError("a message is there twice")
        if piece.parent is not None and piece.parent not in known:
            raise ValueError("a message has no place in its chat")
        if piece.role not in ROLES or piece.state not in STATES:
            raise ValueError("a message is of an unknown kind")
        if any(length < 0 for length, _ in piece.runs) or sum(r[0] for r in piece.runs) > len(piece.text):
            raise ValueError("a reply's drafts are longer than its text")
        known.add(piece.id)
    if bundle.head is not None and bundle.head not in known:
        raise ValueError("the shown message is missing")


def path_of(bundle: Bundle) -> list[Piece]:
    """The shown path, first message first."""
    by_id = {piece.id: piece for piece in bundle.pieces}
    path, at = [], bundle.head
    while at is not None and at in by_id:
        path.append(by_id[at])
        at = by_id[at].parent
    return path[::-1]


# -------------------------------------------------------------------------------------------------- out


def take(store: Store, chat_id: int, with_rounds: bool = True) -> Bundle:
    """A chat as it is on the disk. Raises `Problem` if it is gone."""
    store.flush()
    rows = store.read(
        "SELECT title, created, updated, head, pinned, own, (SELECT name FROM folders f WHERE f.id=folder_id)"
        " FROM chats WHERE id=? AND deleted IS NULL",
        (chat_id,),
        chat_id,
    )
    if not rows:
        raise Problem("This chat is not there any more.", "Choose another one.")
    title, created, updated, head, pinned, own, folder = rows[0]
    sql = (
        "SELECT id, parent_id, role, text, state, note, model, created, runs FROM messages WHERE chat_id=? ORDER BY id"
    )
    found = store.read(sql, (chat_id,), chat_id)
    known = {row[0] for row in found}
    pieces = []
    for number, parent, role, text, state, note, model, at, runs in found:
        row = store.message(number) if role == "assistant" else None
        pieces.append(
            Piece(
                number,
                parent if parent in known else None,
                role,
                text,
                # What is being written now is, for whoever reads this, a reply that was cut off here.
                state if state in STATES else "cut",
                note,
                model,
                at,
                tuple((int(length), drafter) for length, drafter in json.loads(runs)),
                row.stats if row else None,
                tuple(store.rounds(number)) if with_rounds and role == "assistant" else (),
            )
        )
    head = head if head in known else None
    return Bundle(title, created, updated, tuple(pieces), head, folder or "", bool(pinned), own)


# --------------------------------------------------------------------------------------------------- in


def put(store: Store, bundles: Sequence[Bundle], incognito: bool = False) -> list[int]:
    """Add chats; returns their numbers. All are added, or none: raises `Problem` then."""
    near = INCOGNITO if incognito else 0
    packed: list[list[tuple[Any, ...]]] = []

    def job(c: sqlite3.Connection) -> list[int]:
        folders = {name: number for number, name in c.execute("SELECT id, name FROM folders")}
        made = []
        for bundle, rows in zip(bundles, packed, strict=True):
            folder = plain(bundle.folder)
            if folder and folder not in folders and not incognito:
                sql = "INSERT INTO folders (name, created) VALUES (?, ?)"
                folders[folder] = c.execute(sql, (folder, time.time())).lastrowid
            made.append(_insert(c, bundle, rows, folders.get(folder)))
        return made

    try:
        packed += [[_packed(piece) for piece in bundle.pieces] for bundle in bundles]
        made: list[int] = store.change(job, near, WAIT_S)
    except (sqlite3.Error, ArithmeticError, AttributeError, ValueError, TypeError) as e:
        raise Problem(f"The chats could not be added ({e}).", "Nothing was changed; the file may be damaged.") from e
    return made


def _packed(piece: Piece) -> tuple[Any, ...]:
    stats = json.dumps(asdict(piece.stats)) if piece.stats else None
    runs = json.dumps(piece.runs, separators=(",", ":"))
    rounds = json.dumps([asdict(r) for r in piece.rounds], separators=(",", ":")) if piece.rounds else ""
    return (
        piece.role,
        plain(piece.text),
        runs,
        piece.state,
        plain(piece.note),
        plain(piece.model),
        piece.created,
        stats,
        rounds,
    )


def _insert(c: sqlite3.Connection, bundle: Bundle, rows: Sequence[tuple[Any, ...]], folder: int | None) -> int:
    chat = c.execute(
        "INSERT INTO chats (id, title, created, updated, folder_id, pinned, own) SELECT 1 + max("
        "coalesce((SELECT max(id) FROM chats), 0), coalesce((SELECT max(chat_id) FROM forgets), 0)), ?, ?, ?, ?, ?, ?",
        (plain(bundle.title), bundle.created, bundle.updated, folder, int(bundle.pinned), plain(bundle.own)),
    ).lastrowid
    numbers: dict[int, int | None] = {}
    for piece, (role, text, runs, state, note, model, created, stats, rounds) in zip(bundle.pieces, rows, strict=True):
        parent = numbers[piece.parent] if piece.parent is not None else None
        number = c.execute(
            "INSERT INTO messages (chat_id, parent_id, role, text, runs, state, note, model, created, stats)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (chat, parent, role, text, runs, state, note, model, created, stats),
        ).lastrowid
        numbers[piece.id] = number
        if rounds:
            c.execute("INSERT INTO rounds VALUES (?, 0, ?)", (number, rounds))
    head = numbers[bundle.head] if bundle.head is not None else None
    c.execute("UPDATE chats SET head=? WHERE id=?", (head, chat))
    return int(chat or 0)


def plain(text: str) -> str:
    """What SQLite and every tokenizer take, as long as it was: lone surrogates and NUL become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def duplicate(store: Store, chat_id: int) -> int:
    """A copy of a chat with all its branches, beside it in its folder; an incognito chat's copy is incognito."""
    bundle = take(store, chat_id)
    title = f"{bundle.title} (copy)" if bundle.title else ""
    (number,) = put(
        store, [replace(bundle, title=title, updated=time.time(), pinned=False)], incognito=chat_id >= INCOGNITO
    )
    return number
