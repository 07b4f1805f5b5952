"""Opens the Tokens window on a reply and keeps it fed while the reply is written. The window's own part is small."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from desktop.color_scheme import inherit_scheme
from desktop.conversation import Conversation
from desktop.store import MessageRow, Store
from desktop.tokens.tokens_window import TokensWindow
from mlx_spec.events import Finished, Round


class TokensOpener(QObject):
    """One Tokens window, made when it is first asked for."""

    def __init__(self, parent: QWidget, conversation: Conversation, store: Store) -> None:
        super().__init__(parent)
        self._parent, self._store = parent, store
        self.window: TokensWindow | None = None
        self._live: tuple[int, list[Round]] | None = None  # the reply that is being written, ahead of the disk
        conversation.message_added.connect(self._added)
        conversation.rounds_arrived.connect(self._rounds)
        conversation.reply_finished.connect(self._finished)

    def open(self, message_id: int | None) -> None:
        """Show a reply; nothing happens where there is none."""
        row = self._store.message(message_id) if message_id is not None else None
        if row is None or row.role != "assistant":
            return
        if self.window is None:
            self.window = TokensWindow(self._parent)
            inherit_scheme(self.window)
        asked = self._store.message(row.parent_id) if row.parent_id is not None else None
        self.window.show_reply(row, self._rounds_of(row.id), asked.text if asked else "")
        self.window.show()
        self.window.activateWindow()

    def _rounds_of(self, message_id: int) -> list[Round]:
        if self._live is not None and self._live[0] == message_id:
            return self._live[1]
        return self._store.rounds(message_id)

    def _added(self, row: MessageRow) -> None:
        if row.state == "writing":
            self._live = (row.id, self._store.rounds(row.id))  # some, where it is continued

    def _rounds(self, message_id: int, rounds: list[Round]) -> None:
        if self._live is not None and self._live[0] == message_id:
            self._live[1].extend(rounds)
        if self.window is not None and self.window.isVisible():
            self.window.add_rounds(message_id, rounds)

    def _finished(self, row: MessageRow, finished: Finished | None) -> None:
        self._live = None
        if self.window is not None:
            self.window.finish(row, finished)
