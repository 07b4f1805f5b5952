"""Adds imported chats to the store, but not those that are there already, and says in words what came of it.

A chat is there already if one that was begun at the same moment has all of its messages: it may have been gone on
with since. Knows bundles and the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from desktop.store import Store
from desktop.transfer.bundle import Bundle, plain, put


@dataclass(frozen=True, slots=True)
class Added:
    """The numbers of the chats that were added, and how many were there already."""

    chats: tuple[int, ...]
    known: int

    @property
    def words(self) -> str:
        """One sentence for a person."""
        if not self.chats:
            one = self.known == 1
            return "The chat was there already." if one else f"All {self.known:,} chats were there already."
        done = f"{counted(len(self.chats))} imported"
        if not self.known:
            return f"{done}."
        return f"{done}, {self.known:,} {'was' if self.known == 1 else 'were'} there already."


def counted(chats: int) -> str:
    """So many chats, in words."""
    return "1 chat" if chats == 1 else f"{chats:,} chats"


def add(store: Store, bundles: Sequence[Bundle]) -> Added:
    """Add what is new; all of it or, where that raises `Problem`, nothing."""
    there: dict[float, list[int]] = {}
    for number, created in store.read("SELECT id, created FROM chats WHERE deleted IS NULL"):
        there.setdefault(created, []).append(number)
    fresh: list[Bundle] = []
    said_at: dict[float, list[Counter[tuple[str, str]]]] = {}
    for bundle in bundles:
        said = Counter((piece.role, plain(piece.text)) for piece in bundle.pieces)
        if bundle.created not in said_at:
            said_at[bundle.created] = [_said(store, number) for number in there.get(bundle.created, ())]
        if any(said <= other for other in said_at[bundle.created]):
            continue
        said_at[bundle.created].append(said)
        fresh.append(bundle)
    made = put(store, fresh) if fresh else []
    return Added(tuple(made), len(bundles) - len(fresh))


def _said(store: Store, chat_id: int) -> Counter[tuple[str, str]]:
    return Counter(store.read("SELECT role, text FROM messages WHERE chat_id=?", (chat_id,)))
