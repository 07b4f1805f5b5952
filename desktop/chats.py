"""Which chats there are and which one is open: made, opened, renamed, put into the trash. Knows no engine."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from desktop.settings import LAST_CHAT, Settings
from desktop.shelf import Shelf
from desktop.store import ChatRow, Store


class Chats(QObject):
    """The chats, for a conversation that is held in the open one. The store and the settings are lent to it."""

    chats_changed = Signal(list)
    chat_opened = Signal(object, list)

    def __init__(self, store: Store, settings: Settings) -> None:
        super().__init__()
        self._store, self._settings = store, settings
        self._shelf = Shelf(store)
        self._chat: ChatRow | None = None

    @property
    def chat(self) -> ChatRow | None:
        """The one that is open."""
        return self._chat

    def open_last(self) -> None:
        """Open the chat that was open last, else the latest, else an empty one."""
        self.chats_changed.emit(self._store.chats())
        last = self._settings.get(LAST_CHAT)
        chat = self._store.chat(last) if last is not None else None
        if chat is not None:
            self.open_chat(chat.id)
        elif chats := self._store.chats():
            self.open_chat(chats[0].id)
        else:
            self.new_chat()

    def new_chat(self, incognito: bool = False) -> None:
        """Open an empty chat: the last one of its kind, if it is still empty. An incognito one is in memory only."""
        alike = (c for c in self._store.chats() if c.incognito == incognito)
        for chat in alike:
            if not chat.title and not self._store.messages(chat.id):
                self.open_chat(chat.id)
                return
            break
        chat = self._store.new_chat(incognito=incognito)
        self.chats_changed.emit(self._store.chats())
        self.open_chat(chat.id)

    def open_chat(self, chat_id: int) -> None:
        """Show a chat; nothing happens where there is none of this number."""
        chat = self._store.chat(chat_id)
        if chat is None:
            return
        self._chat = chat
        if not chat.incognito:
            self._settings.set(LAST_CHAT, chat.id)
        self.chat_opened.emit(chat, self._store.messages(chat_id))

    def rename_chat(self, chat_id: int, title: str) -> None:
        self._store.rename_chat(chat_id, title.strip()[:200])
        self.refresh_chats()

    def delete_chat(self, chat_id: int) -> None:
        """Put a chat into the trash."""
        self.delete_chats([chat_id])

    def delete_chats(self, chat_ids: Sequence[int]) -> None:
        """Put chats into the trash; if the open one is among them, the one after it is opened."""
        gone = set(chat_ids)
        before = [chat.id for chat in self._store.chats()]
        for number in gone:
            self._shelf.trash(number)
        is_open = self._chat is not None and self._chat.id in gone
        at = before.index(self._chat.id) if self._chat is not None and self._chat.id in before else 0
        if is_open:
            self._chat = None
        self.chats_changed.emit(self._store.chats())
        if is_open:
            left = [n for n in before[at:] + before[:at][::-1] if n not in gone]
            if left:
                self.open_chat(left[0])
            else:
                self.new_chat()

    def refresh_chats(self) -> None:
        """Say anew which chats there are, after something about them was changed."""
        if self._chat is not None:
            self._chat = self._store.chat(self._chat.id)
        self.chats_changed.emit(self._store.chats())
