"""The room in the model's context, chat by chat: what fills it, and which oldest turns were left out to make some.

Nothing is left out before a person agreed to it for the chat; what is left out stays in the chat and is only not said
to the model any more. Knows message rows and token counts; no widget, no database, no engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from desktop.attachments import fenced, split
from desktop.context import Filling, Full, TokenCounter, Tokens, fitting, rounded
from desktop.store import ChatRow, MessageRow
from mlx_spec.events import Finished, Message, Round

NONE = Tokens(0)


class Room(QObject):
    """What the open chat takes. `changed` is emitted when that is another number now."""

    changed = Signal()

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__()
        self.counter = counter
        self._chat = 0
        self._rows: dict[int, tuple[str, str]] = {}  # role and text of the shown path, by message
        self._live = 0  # tokens of the reply that is being written
        self._system = ""
        self._length = 0
        self._gone: dict[int, int] = {}  # how many of a chat's oldest messages are left out
        self._agreed: set[int] = set()  # chats in which some may be
        self._path: tuple[Tokens, Tokens, Tokens] | None = None  # system, history, attachments
        counter.changed.connect(self._recount)

    # ----------------------------------------------------------------------------------- what happens

    def chat_opened(self, chat: ChatRow, rows: Sequence[MessageRow]) -> None:
        """Another path is shown."""
        self._chat = chat.id
        self._rows = {row.id: (row.role, row.text) for row in rows}
        self._live = 0
        self._recount()

    def message_added(self, row: MessageRow) -> None:
        """The path has grown by a message."""
        if row.chat_id == self._chat:
            self._rows[row.id] = (row.role, row.text)
            self._live = 0
            self._recount()

    def rounds_arrived(self, message_id: int, rounds: Sequence[Round]) -> None:
        """A reply has grown."""
        if message_id in self._rows:
            self._live += sum(len(r.tokens) for r in rounds)
            self.changed.emit()

    def reply_finished(self, row: MessageRow, finished: Finished | None) -> None:
        """A reply is over."""
        if row.id in self._rows:
            self._rows[row.id] = (row.role, row.text)
            self._live = 0
            self._recount()

    def set_model(self, length: int) -> None:
        """A model with this context length is loaded; 0 if none is."""
        self._length = length
        self.counter.reset(ready=length > 0)
        self._recount()

    def set_system(self, text: str) -> None:
        """The system prompt is another one."""
        if text != self._system:
            self._system = text
            self._recount()

    def _recount(self) -> None:
        self._path = None
        self.changed.emit()

    # -------------------------------------------------------------------------------------- how full

    def filling(self, draft: str = "") -> Filling:
        """What fills the context: the open chat's path, and a message that is being written."""
        if self._path is None:
            self._path = self._count_path()
        system, history, files = self._path
        attached, typed = split(draft)
        for attachment in attached:
            files += self.counter.count(fenced(attachment))
        written = self.counter.message(typed) if draft.strip() else NONE
        return Filling(system, history + Tokens(self._live), files, written, self._length, self._left_out())

    def _left_out(self) -> int:
        return min(self._gone.get(self._chat, 0), max(0, len(self._rows) - 1))

    def _count_path(self) -> tuple[Tokens, Tokens, Tokens]:
        history, files = NONE, NONE
        for role, text in list(self._rows.values())[self._left_out() :]:
            attached, typed = split(text) if role == "user" else ([], text)
            for attachment in attached:
                files += self.counter.count(fenced(attachment))
            history += self.counter.message(typed) if text else NONE
        system = self.counter.message(self._system) if self._system else NONE
        return system + Tokens(self.counter.fixed if history.number else 0), history, files

    # ---------------------------------------------------------------------------------- what is said

    def agree(self, chat_id: int) -> None:
        """From here on the oldest turns of a chat may be left out where they do not fit."""
        self._agreed.add(chat_id)

    def fit(self, chat_id: int, messages: Sequence[Message], system: str, length: int) -> list[Message]:
        """The prompt of a chat's messages: all of them, or without the oldest where that was agreed to.

        Raises `Full` where they do not fit.
        """
        head = [Message("system", system)] if system else []
        everything = [*head, *messages]
        if not messages or not length:
            return everything
        if sum(self.counter.message(m.content).number for m in everything) <= length * 3 // 4:
            self._gone.pop(chat_id, None)  # turns that were left out fit again
        gone = min(self._gone.get(chat_id, 0), len(messages) - 1)
        more = fitting(self.counter, [*head, *messages[gone:]], length)
        if more and chat_id not in self._agreed:
            used = sum(self.counter.message(m.content).number for m in [*head, *messages[gone:]])
            raise Full(
                f"This chat is full: with this message it has about {rounded(used):,} tokens,"
                f" and the context holds {length:,}.",
                "Leave out its oldest turns, shorten the message, or start a new chat.",
                can_drop=True,
            )
        if more:
            self._gone[chat_id] = gone + more
            self._recount()
        return [*head, *messages[gone + more :]]
