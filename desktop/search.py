"""Finding chats by their titles and by what was said in them, on every branch.

Words are looked up in SQLite's full-text indexes. Whatever a person types is quoted word by word, so nothing they type
can be a syntax error. Knows the store's tables and words; does not know how hits are shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from desktop.branches import leaf_of
from desktop.store import INCOGNITO, Store, plain
from desktop.words import Term, places, snippet, terms

MOST = 60  # hits that are shown
EACH = 4  # of them in one chat
_LOOKED_AT = 400  # messages, the latest first, out of which the shown ones are taken


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where it was found: in a message, or in the title (`message` None). `marks` are in `text`."""

    chat: int
    message: int | None
    title: str
    text: str
    marks: tuple[tuple[int, int], ...] = ()
    title_marks: tuple[tuple[int, int], ...] = ()
    role: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a search; `more` if not all are among them."""

    hits: tuple[Hit, ...] = ()
    more: bool = False


class Search:
    """The search over a store. Incognito chats are found, too, for as long as they are there."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, query: str, most: int = MOST) -> Found:
        """Chats whose title has all the words, then messages that have them all, the latest first."""
        wanted = terms(plain(query))
        if not wanted:
            return Found()
        hits: list[Hit] = []
        more = False
        for near in (INCOGNITO, 0):
            titles = self._titles(wanted, most + 1, near)
            more |= len(titles) > most
            hits += [Hit(chat, None, title, "", (), _marks(title, wanted)) for chat, title in titles[:most]]
        counts: dict[int, int] = {}
        for near in (INCOGNITO, 0):
            rows = self._messages(wanted, near)
            more |= len(rows) == _LOOKED_AT
            for message, chat, role, title in rows:
                counts[chat] = counts.get(chat, 0) + 1
                if counts[chat] > EACH or len(hits) >= most:
                    more = True
                    continue
                text = self._store.read("SELECT text FROM messages WHERE id=?", (message,), near)[0][0]
                piece, marks = snippet(text, wanted)
                hits.append(Hit(chat, message, title, piece, tuple(marks), _marks(title, wanted), role))
        return Found(tuple(hits), more)

    def _titles(self, wanted: list[Term], most: int, near: int) -> list[tuple[int, str]]:
        where, values = _condition(wanted, "title_words", "c.id", "c.title")
        sql = f"SELECT c.id, c.title FROM chats c WHERE c.deleted IS NULL AND {where} ORDER BY c.updated DESC LIMIT ?"
        return self._store.read(sql, (*values, most), near)

    def _messages(self, wanted: list[Term], near: int) -> list[tuple[int, int, str, str]]:
        columns = "m.id, m.chat_id, m.role, c.title"
        spaced = [t for t in wanted if not t.anywhere]
        if len(spaced) == len(wanted):
            # Walked from the newest down along the index itself, so that a common word costs no more than a rare one.
            sql = (
                f"SELECT {columns} FROM message_words w CROSS JOIN messages m ON m.id=w.rowid"
                " CROSS JOIN chats c ON c.id=m.chat_id WHERE w.message_words MATCH ? AND c.deleted IS NULL"
                " ORDER BY w.rowid DESC LIMIT ?"
            )
            return self._store.read(sql, (_match(spaced), _LOOKED_AT), near)
        where, values = _condition(wanted, "message_words", "m.id", "m.text")
        sql = (
            f"SELECT {columns} FROM messages m CROSS JOIN chats c ON c.id=m.chat_id"
            f" WHERE {where} AND c.deleted IS NULL ORDER BY m.id DESC LIMIT ?"
        )
        return self._store.read(sql, (*values, _LOOKED_AT), near)

    # ------------------------------------------------------------------------------------------ showing

    def reveal(self, chat_id: int, message_id: int) -> None:
        """See to it that a message is on the shown path of its chat, by going to its newest branch."""
        store = self._store
        if any(row.id == message_id for row in store.messages(chat_id)):
            return
        store.set_head(chat_id, leaf_of(store, chat_id, message_id))


def _marks(text: str, wanted: list[Term]) -> tuple[tuple[int, int], ...]:
    return tuple(places(text, wanted))


def _match(wanted: list[Term]) -> str:
    """A full-text query: every term quoted, so that no word of it is an operator."""
    return " AND ".join('"' + " ".join(t.words) + '"' + ("*" if t.prefix else "") for t in wanted)


def _condition(wanted: list[Term], index: str, number: str, text: str) -> tuple[str, list[str]]:
    """SQL that holds where all terms are found, and its values."""
    parts, values = [], []
    spaced = [t for t in wanted if not t.anywhere]
    if spaced:
        parts.append(f"{number} IN (SELECT rowid FROM {index} WHERE {index} MATCH ?)")
        values.append(_match(spaced))
    for term in wanted:
        if term.anywhere:
            parts.append(f"instr({text}, ?) > 0")
            values.append(term.typed)
    return " AND ".join(parts), values
