"""Chats, messages and rounds on the disk: SQLite in WAL mode, one writer thread, reads on a connection of their own.

A message is never overwritten: an edit or another try is a sibling with the same parent, and a chat's `head` says
which leaf is shown. What a reply says is stored with who proposed each piece, and its rounds beside it, so that a
finished reply can be looked at again with its colours. Incognito chats live in a database in memory beside the file,
under numbers of their own, and end with the app. This module knows events and files; no widget, no engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from desktop.schema import VERSION, bring_up
from mlx_spec.events import DrafterStats, Finished, Problem, Round, Span

RETRY_S = 1.0
KEPT_S = 30 * 24 * 3600.0  # that a deleted chat can be brought back
CUT = "The app ended while this was written."
INCOGNITO = 1 << 30  # ids from here on are in memory only; a file never gets so far, and a Qt signal takes them


@dataclass(frozen=True, slots=True)
class ChatRow:
    """`folder` is the number of the folder that the chat is in."""

    id: int
    title: str
    created: float
    updated: float
    folder: int | None = None
    pinned: bool = False

    @property
    def incognito(self) -> bool:
        """Whether the chat is kept in memory only."""
        return self.id >= INCOGNITO


@dataclass(frozen=True, slots=True)
class MessageRow:
    """`state` is "done", "writing", "stopped", "failed" or "cut"; `note` says why for the last two."""

    id: int
    chat_id: int
    parent_id: int | None
    role: str
    text: str
    state: str
    created: float
    note: str = ""
    spans: tuple[Span, ...] = ()
    stats: Finished | None = None
    model: str = ""


def runs_of(spans: Sequence[Span]) -> list[list[Any]]:
    """Spans without their text: [length, drafter]."""
    return [[len(s.text), s.drafter] for s in spans]


def spans_of(text: str, runs: Sequence[Sequence[Any]]) -> tuple[Span, ...]:
    out, at = [], 0
    for length, drafter in runs:
        out.append(Span(text[at : at + length], drafter))
        at += length
    return tuple(out)


class Store:
    """The database. Every write goes through one thread; `add_message` returns when its row is on the disk.

    Raises `Problem` if the file belongs to a newer version, is locked or cannot be opened. `on_problem` is called
    from the writer thread, once, when writing fails; what could not be written is kept and tried again.
    """

    def __init__(self, path: Path, on_problem: Callable[[Problem], None] | None = None) -> None:
        self.path = path
        self.notices: list[str] = []
        self.on_problem = on_problem
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise Problem(f"{path.parent} cannot be written: {e.strerror}.", "Choose another data folder.") from e
        self._prepare()
        self._reader = self._connect()
        self._aside = self._connect()
        self._aside_lock = threading.Lock()
        self._memory = _in_memory()
        self._owner = threading.current_thread()
        self._jobs: queue.SimpleQueue[tuple[Callable[[sqlite3.Connection], Any], Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._told = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="store writer", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------------------- opening

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=5, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    def _prepare(self) -> None:
        try:
            self._open_file()
        except sqlite3.OperationalError as e:
            raise Problem(
                f"The chats in {self.path} cannot be opened: {e}.",
                "Close whatever else uses the file, make sure that the disk has room, and start again.",
            ) from e
        except sqlite3.DatabaseError:
            aside = self.path.with_name(f"{self.path.stem}.broken-{time.strftime('%Y%m%d-%H%M%S')}{self.path.suffix}")
            os.replace(self.path, aside)
            for ending in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{ending}", f"{aside}{ending}")
            self.notices.append(f"The chats in {self.path} are damaged; the file is kept as {aside.name}.")
            self._open_file()

    def _open_file(self) -> None:
        if self.path.exists() and self.path.stat().st_size:
            # Looked at without write access first: a file of a newer version is not touched.
            look = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
            try:
                version = look.execute("PRAGMA user_version").fetchone()[0]
                look.execute("SELECT count(*) FROM sqlite_master").fetchone()
            finally:
                look.close()
            if version > VERSION:
                raise Problem(
                    f"The chats in {self.path} come from a newer Outrider (format {version}; {VERSION} is known).",
                    "Update Outrider, or start it with another data folder. The file was not touched.",
                )
        connection = self._connect()
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            bring_up(connection)
            connection.execute("UPDATE messages SET state='cut', note=? WHERE state='writing'", (CUT,))
            empty_trash(connection, time.time() - KEPT_S)
            connection.execute("COMMIT")
        finally:
            connection.close()

    # ------------------------------------------------------------------------------------------- writing

    def _run(self) -> None:
        connection = self._connect()
        ending = False
        while not ending:
            batch = [self._jobs.get()]
            while not self._jobs.empty():
                batch.append(self._jobs.get())
            ending = None in batch
            jobs = [job for job in batch if job is not None]
            while jobs and not self._commit(connection, jobs):
                if self._closing:
                    break
                time.sleep(RETRY_S)
        connection.close()

    def _commit(
        self, connection: sqlite3.Connection, jobs: list[tuple[Callable[[sqlite3.Connection], Any], Future[Any]]]
    ) -> bool:
        """All jobs in one transaction; False if the disk or a lock stood in the way."""
        results: list[Any] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job, _ in jobs:
                results.append(job(connection))
            connection.execute("COMMIT")
        except sqlite3.OperationalError as e:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            problem = Problem(
                f"The chats cannot be written to {self.path}: {e}.",
                "Make room on the disk or close what else uses the file; nothing is lost while the app runs.",
            )
            if not self._told and self.on_problem:
                self.on_problem(problem)
            self._told = True
            return False
        except Exception as e:  # a job that the database refuses: say so to whoever asked, and go on
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(jobs) == 1:
                jobs[0][1].set_exception(e)
                return True
            return all(self._commit(connection, [job]) for job in jobs)
        self._told = False
        for (_, future), result in zip(jobs, results, strict=True):
            future.set_result(result)
        return True

    def write(self, job: Callable[[sqlite3.Connection], Any], near: int = 0) -> Future[Any]:
        """Have `job` done with the database that holds the chat or message `near`; only SQL may fail in it."""
        future: Future[Any] = Future()
        if near >= INCOGNITO:
            self._commit(self._memory, [(job, future)])
        else:
            self._jobs.put((job, future))
        return future

    def change(self, job: Callable[[sqlite3.Connection], Any], near: int = 0, seconds: float = 10.0) -> Any:
        """`write`, and wait. Raises `Problem` if it is not on the disk in time; it is still tried afterwards."""
        try:
            return self.write(job, near).result(seconds)
        except TimeoutError as e:
            raise Problem(
                f"The chats cannot be written to {self.path}.", "Make room on the disk, then try again."
            ) from e

    def read(self, sql: str, values: Sequence[Any] = (), near: int = 0) -> list[Any]:
        """The rows of a query in the database that holds the chat or message `near`.

        Another thread than the one that opened the store reads on a connection of its own, so that a slow query
        there keeps nobody waiting here. Raises `Problem` there once the store is closed.
        """
        if threading.current_thread() is self._owner:
            return (self._memory if near >= INCOGNITO else self._reader).execute(sql, values).fetchall()
        with self._aside_lock:
            if self._closing:
                raise Problem("The chats are closed.", "")
            return (self._memory if near >= INCOGNITO else self._aside).execute(sql, values).fetchall()

    def flush(self, seconds: float = 10.0) -> None:
        """Wait until all that was asked for is on the disk."""
        self.change(lambda _: None, 0, seconds)

    def close(self) -> None:
        """Write what is waiting, then close. A second call does nothing."""
        if self._closing:
            return
        with contextlib.suppress(Problem):
            self.flush()
        with self._aside_lock:
            self._closing = True
        self._jobs.put(None)
        self._thread.join(5)
        for connection in (self._reader, self._aside, self._memory):
            connection.close()

    # --------------------------------------------------------------------------------------------- chats

    def chats(self) -> list[ChatRow]:
        """All chats but those in the trash, the latest first; incognito ones before all others."""
        sql = f"SELECT {_CHAT} FROM chats WHERE deleted IS NULL ORDER BY updated DESC, id DESC"
        return [_chat(row) for near in (INCOGNITO, 0) for row in self.read(sql, (), near)]

    def chat(self, chat_id: int) -> ChatRow | None:
        """A chat, unless it is in the trash."""
        rows = self.read(f"SELECT {_CHAT} FROM chats WHERE id=? AND deleted IS NULL", (chat_id,), chat_id)
        return _chat(rows[0]) if rows else None

    def new_chat(self, title: str = "", incognito: bool = False) -> ChatRow:
        now = time.time()
        # A number is not given a second time while the engine may still keep replies under it.
        sql = (
            "INSERT INTO chats (id, title, created, updated) SELECT 1 + max("
            "coalesce((SELECT max(id) FROM chats), 0), coalesce((SELECT max(chat_id) FROM forgets), 0)), ?, ?, ?"
        )
        near = INCOGNITO if incognito else 0
        number = self.change(lambda c: c.execute(sql, (title, now, now)).lastrowid, near)
        return ChatRow(number, title, now, now)

    def rename_chat(self, chat_id: int, title: str) -> None:
        title = plain(title)
        self.change(lambda c: c.execute("UPDATE chats SET title=? WHERE id=?", (title, chat_id)), chat_id)

    def composer_draft(self, chat_id: int) -> str:
        """What was typed in this chat and not sent."""
        rows = self.read("SELECT composer FROM chats WHERE id=?", (chat_id,), chat_id)
        return rows[0][0] if rows else ""

    def set_composer_draft(self, chat_id: int, text: str) -> None:
        text = plain(text)
        self.change(lambda c: c.execute("UPDATE chats SET composer=? WHERE id=?", (text, chat_id)), chat_id)

    # ------------------------------------------------------------------------------------------ messages

    def add_message(
        self, chat_id: int, parent_id: int | None, role: str, text: str, state: str = "done", model: str = ""
    ) -> MessageRow:
        """A new message under `parent_id`, which becomes the chat's head. On the disk when this returns."""
        now, text = time.time(), plain(text)

        def job(c: sqlite3.Connection) -> int:
            number = c.execute(
                "INSERT INTO messages (chat_id, parent_id, role, text, state, model, created) VALUES (?,?,?,?,?,?,?)",
                (chat_id, parent_id, role, text, state, model, now),
            ).lastrowid
            c.execute("UPDATE chats SET head=?, updated=? WHERE id=?", (number, now, chat_id))
            return int(number or 0)

        number = self.change(job, chat_id)
        return MessageRow(number, chat_id, parent_id, role, text, state, now, model=model)

    def append_rounds(self, message_id: int, rounds: Sequence[Round]) -> None:
        """Add rounds and their text to a reply. Returns at once; the writer thread does it."""
        if not rounds:
            return
        data = json.dumps([asdict(r) for r in rounds], separators=(",", ":"))
        spans = [s for r in rounds for s in r.spans]
        first = rounds[0].index

        def job(c: sqlite3.Connection) -> None:
            c.execute("INSERT OR REPLACE INTO rounds VALUES (?, ?, ?)", (message_id, first, data))
            self._append(c, message_id, spans)

        self.write(job, message_id)

    def _append(self, c: sqlite3.Connection, message_id: int, spans: Sequence[Span]) -> None:
        text = "".join(s.text for s in spans)
        if not text:
            return
        row = c.execute("SELECT runs FROM messages WHERE id=?", (message_id,)).fetchone()
        if row is None:
            return  # the chat was deleted meanwhile
        runs = json.loads(row[0])
        for length, drafter in runs_of(spans):
            if runs and runs[-1][1] == drafter:
                runs[-1][0] += length
            else:
                runs.append([length, drafter])
        c.execute(
            "UPDATE messages SET text=text||?, runs=? WHERE id=?",
            (text, json.dumps(runs, separators=(",", ":")), message_id),
        )

    def finish(
        self, message_id: int, state: str, note: str = "", stats: Finished | None = None, tail: Sequence[Span] = ()
    ) -> MessageRow:
        """The reply is over: its last text, its state and its figures. On the disk when this returns."""
        data = json.dumps(asdict(stats)) if stats else None

        def job(c: sqlite3.Connection) -> None:
            self._append(c, message_id, tail)
            c.execute("UPDATE messages SET state=?, note=?, stats=? WHERE id=?", (state, note, data, message_id))

        self.change(job, message_id)
        row = self.message(message_id)
        if row is None:  # its chat was deleted while it was written
            return MessageRow(message_id, 0, None, "assistant", "", state, time.time(), note, (), stats)
        return row

    def message(self, message_id: int) -> MessageRow | None:
        rows = self.read(f"SELECT {_COLUMNS} FROM messages WHERE id=?", (message_id,), message_id)
        return _message(rows[0]) if rows else None

    def messages(self, chat_id: int, leaf: int | None = None) -> list[MessageRow]:
        """The shown path, or the one that ends at `leaf`, first message first."""
        head = [(leaf,)] if leaf else self.read("SELECT head FROM chats WHERE id=?", (chat_id,), chat_id)
        rows = self.read(f"SELECT {_COLUMNS} FROM messages WHERE chat_id=?", (chat_id,), chat_id)
        by_id = {row[0]: row for row in rows}
        path, at = [], head[0][0] if head else None
        while at in by_id:
            path.append(_message(by_id[at]))
            at = by_id[at][2]
        return path[::-1]

    def siblings(self, message_id: int) -> list[int]:
        """Ids of the messages with the same parent and role, oldest first, this one included."""
        rows = self.read(
            "SELECT s.id FROM messages s JOIN messages m ON s.chat_id=m.chat_id AND s.parent_id IS m.parent_id"
            " AND s.role=m.role WHERE m.id=? ORDER BY s.id",
            (message_id,),
            message_id,
        )
        return [row[0] for row in rows]

    def set_head(self, chat_id: int, message_id: int | None) -> None:
        self.change(lambda c: c.execute("UPDATE chats SET head=? WHERE id=?", (message_id, chat_id)), chat_id)

    def rounds(self, message_id: int) -> list[Round]:
        """All rounds of a reply, in order."""
        rows = self.read("SELECT data FROM rounds WHERE message_id=? ORDER BY seq", (message_id,), message_id)
        return [_round(r) for row in rows for r in json.loads(row[0])]


_ROUND = frozenset(f.name for f in fields(Round))
_CHAT = "id, title, created, updated, folder_id, pinned"
_COLUMNS = "id, chat_id, parent_id, role, text, state, created, note, runs, stats, model"


def _chat(row: Sequence[Any]) -> ChatRow:
    number, title, created, updated, folder, pinned = row
    return ChatRow(number, title, created, updated, folder, bool(pinned))


def empty_trash(connection: sqlite3.Connection, before: float) -> list[int]:
    """Remove for good what was put into the trash before a time; the engine's part of it is noted for later."""
    gone = [row[0] for row in connection.execute("SELECT id FROM chats WHERE deleted < ?", (before,))]
    for number in gone:
        connection.execute("DELETE FROM chats WHERE id=?", (number,))
        connection.execute("INSERT OR IGNORE INTO forgets VALUES (?)", (number,))
    return gone


def _in_memory() -> sqlite3.Connection:
    """An empty database in memory whose chats and messages are numbered from INCOGNITO on."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA temp_store=MEMORY")
    bring_up(connection)
    # The numbering begins after rows that are never shown, searched or removed.
    connection.execute(
        "INSERT INTO chats (id, title, created, updated, deleted) VALUES (?, '', 0, 0, 9e99)", (INCOGNITO,)
    )
    connection.execute(
        "INSERT INTO messages (id, chat_id, role, text, state, created) VALUES (?, ?, 'system', '', 'writing', 0)",
        (INCOGNITO, INCOGNITO),
    )
    return connection


def _message(row: Sequence[Any]) -> MessageRow:
    number, chat, parent, role, text, state, created, note, runs, stats, model = row
    spans = spans_of(text, json.loads(runs))
    return MessageRow(number, chat, parent, role, text, state, created, note, spans, _stats(stats), model)


def _round(data: dict[str, Any]) -> Round:
    """A round as it was kept: an older one lacks fields, which have defaults; a newer one may have more."""
    data["spans"] = tuple(Span(**s) for s in data["spans"])
    known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in _ROUND}
    return Round(**known)


def _stats(text: str | None) -> Finished | None:
    if not text:
        return None
    data = json.loads(text)
    data["tail"] = tuple(Span(**s) for s in data["tail"])
    data["by_drafter"] = {k: DrafterStats(**v) for k, v in data["by_drafter"].items()}
    return Finished(**data)


def plain(text: str) -> str:
    """What SQLite and every tokenizer take: lone surrogates become U+FFFD, NUL is dropped."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")
