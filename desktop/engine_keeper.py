"""Keeps the engine for a conversation: loads it, restarts it, lets it sleep, and knows who drafts in which chat."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from PySide6.QtCore import QTimer, Signal

from desktop.chats import Chats
from desktop.context import TokenCounter
from desktop.engine_client import EngineClient
from desktop.macos import Awake
from desktop.own import ChatSettings, getter, own_of
from desktop.room import Room
from desktop.settings import (
    CONTEXT,
    DRAFT_MODEL,
    DRAFTERS,
    KV_BITS,
    LIMITS,
    MAX_DRAFT,
    MODEL,
    RULE,
    SYSTEM_PROMPT,
    Setting,
    Settings,
    drafters_of,
)
from desktop.store import MessageRow, Store
from mlx_spec.events import (
    DrafterSettings,
    Failed,
    Finished,
    Forget,
    Load,
    Message,
    ModelInfo,
    Round,
    SetDrafters,
)

FRAME_MS = 16


class EngineState(Enum):
    NO_MODEL = "no model"
    LOADING = "loading"
    IDLE = "idle"
    PREFILLING = "prefilling"
    GENERATING = "generating"
    STOPPING = "stopping"
    DEAD = "dead"
    ASLEEP = "asleep"  # the model was there, and is again as soon as it is needed


@dataclass(slots=True)
class Writing:
    """The reply that is being written. `unsaved` are its rounds that are not yet on the disk.

    `before` counts the rounds that it had, and `earlier` has their figures, where it is continued.
    """

    row: MessageRow
    request: int
    prompt: tuple[Message, ...]
    before: int = 0
    earlier: Finished | None = None
    unsaved: list[Round] = field(default_factory=list)
    saved_at: float = field(default_factory=time.monotonic)


class EngineKeeper(Chats):
    """The part of a conversation that is about the engine: which models it has, how it is, who drafts in which chat."""

    message_added = Signal(object)
    rounds_arrived = Signal(int, list)
    prompt_progress = Signal(int, object)
    reply_finished = Signal(object, object)
    problem = Signal(object)
    full = Signal(object, object)  # a `Full`, and what does it again once the oldest turns may be left out
    unsent = Signal(str)  # an edited message that could not be said
    state_changed = Signal(object, str, float)
    model_loaded = Signal(object)
    memory_changed = Signal(object)
    drafters_changed = Signal(object)

    def __init__(self, store: Store, settings: Settings, client: EngineClient) -> None:
        super().__init__(store, settings)
        self._client = client
        self._forgetting: list[int] = []  # chats that the engine was told to forget before it loads
        self._state, self._text, self._progress = EngineState.NO_MODEL, "No model is loaded", -1.0
        self._info: ModelInfo | None = None
        self._writing: Writing | None = None
        self._waiting: MessageRow | None = None  # a prompt that the engine could not take yet
        self._numbers = itertools.count(1)
        self._loading = 0
        self._models = ("", "")
        self.room = Room(TokenCounter(client.send))
        self._awake = Awake()
        self._closed = False
        self._held = False  # the engine is lent to something that is no reply
        self._frame = QTimer(self)
        self._frame.setInterval(FRAME_MS)
        self._frame.timeout.connect(self._drain)
        client.arrived.connect(self._wake)
        client.died.connect(self._died)
        self.own = ChatSettings(store, settings)
        self.own.changed.connect(self._setting_changed)
        self.chat_opened.connect(self.room.chat_opened)
        self.message_added.connect(self.room.message_added)
        self.rounds_arrived.connect(self.room.rounds_arrived)
        self.reply_finished.connect(self.room.reply_finished)
        self.room.set_system(settings.get(SYSTEM_PROMPT).strip())

    # -------------------------------------------------------------------------------------------- state

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def info(self) -> ModelInfo | None:
        return self._info

    @property
    def client(self) -> EngineClient:
        """The engine process's end of the pipe, for what is no reply; see `hold`."""
        return self._client

    def _set_state(self, state: EngineState, text: str, progress: float = -1.0) -> None:
        if (state, text, progress) == (self._state, self._text, self._progress):
            return
        self._state, self._text, self._progress = state, text, progress
        busy = state in (EngineState.PREFILLING, EngineState.GENERATING, EngineState.STOPPING)
        self._awake.hold(busy or state is EngineState.LOADING)
        if busy:
            self._frame.start()
        else:
            self._frame.stop()
        self.state_changed.emit(state, text, progress)

    # -------------------------------------------------------------------------------------------- engine

    def start(self) -> None:
        """Show the chats, open the last one, load the chosen models."""
        self.open_last()
        self.load(self._settings.get(MODEL), self._settings.get(DRAFT_MODEL))

    def load(self, model: str, draft: str = "") -> None:
        """Load a target and maybe a draft model. A running reply is stopped; what came of it stays."""
        if self._writing is not None:
            self._end_reply("stopped", "")
            self._client.close(1.0)  # a load must not wait for a long pass of the old model
        self._models = (model, draft)
        self._loading = next(self._numbers)
        self.room.set_model(0)
        self._set_state(EngineState.LOADING, f"Loading {model}")
        self._client.start()
        # Before the load, which is answered: requests are taken in turn, so by then these are done.
        get = self._settings.get
        self._forgetting = self._shelf.owed()
        for number in self._forgetting:
            self._client.send(Forget(str(number)))
        self._client.send(Load(self._loading, model, draft or None, get(CONTEXT), kv_bits=get(KV_BITS)))

    def restart_engine(self) -> None:
        """Start the engine process anew with the same models."""
        if self._writing is not None:
            self._end_reply("cut", "The engine was restarted.")
        self._info = None
        self._client.close(1.0)
        model, draft = self._models
        self.load(model or self._settings.get(MODEL), draft if model else self._settings.get(DRAFT_MODEL))

    def sleep(self) -> None:
        """End the engine while nothing is asked of it, for its memory; `restart_engine` or a message wakes it."""
        if self._state is EngineState.IDLE and not self._held:
            self._client.close(1.0)
            self._info = None
            self.room.set_model(0)
            self._set_state(EngineState.ASLEEP, "Resting until you write")

    def _died(self, words: str) -> None:
        if self._client.alive:
            return  # said of a process that has been replaced meanwhile
        self._drain()
        self._info = None
        self.room.set_model(0)
        if self._writing is not None:
            self._end_reply("cut", words)
        self._set_state(EngineState.DEAD, "The engine is not running")
        self.problem.emit(Failed(0, words, "Restart the engine; what was written is kept."))

    def set_drafter(self, name: str, on: bool) -> None:
        """Tick a drafter on or off; from the next round, in mid-reply too. For this chat where it has its own."""
        values = self.own if self.own.has(DRAFTERS) else self._settings
        names = [n for n in values.get(DRAFTERS) if n != name]
        if on:
            names.append(name)
        order = DRAFTERS.default  # who is asked first; others follow in the order of their ticks
        names.sort(key=lambda n: order.index(n) if n in order else len(order))
        values.set(DRAFTERS, tuple(names))

    def _in(self, chat_id: int) -> Callable[[Setting[Any]], Any]:
        """Reads the settings as they are in a chat."""
        own = self.own.own if chat_id == self.own.chat_id else own_of(self._store, chat_id)
        return getter(self._settings, own)

    def _drafters(self, chat_id: int) -> DrafterSettings:
        """What is ticked for a chat and can run with what is loaded."""
        wanted = drafters_of(self._in(chat_id))
        able = self._info.drafters if self._info else wanted.names
        return replace(wanted, names=tuple(n for n in wanted.names if n in able))

    def _setting_changed(self, setting: object) -> None:
        if setting is SYSTEM_PROMPT:
            self.room.set_system(self.own.get(SYSTEM_PROMPT).strip())
        if setting in (DRAFTERS, RULE, MAX_DRAFT, LIMITS):
            shown = self.own.chat_id
            if self._client.alive and not self._held:
                self._client.send(SetDrafters(self._drafters(self._writing.row.chat_id if self._writing else shown)))
            self.drafters_changed.emit(self._drafters(shown))

    # ------------------------------------------------------------------------------- what the conversation does

    def _wake(self) -> None:
        """Something came from the engine."""
        raise NotImplementedError

    def _drain(self) -> None:
        """Take all that has come."""
        raise NotImplementedError

    def _end_reply(self, state: str, note: str) -> None:
        """The reply that is being written is at its end."""
        raise NotImplementedError
