"""What happens between a person and the engine, without a window: chats, turns, replies, failures.

A prompt is on the disk before the engine hears of it; a reply is on the disk while it streams, a quarter of a second
behind at most. The engine may die at any moment: what came is kept and marked, and a restart goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from desktop.attachments import subject
from desktop.branches import can_go_on, fork, joined, leaf_of, rewrite
from desktop.context import Full
from desktop.engine_keeper import EngineKeeper, EngineState, Writing
from desktop.settings import (
    KEEP_REPLIES,
    SYSTEM_PROMPT,
    sampling_of,
)
from desktop.store import ChatRow, MessageRow
from desktop.words import title_of
from mlx_spec.events import (
    Counted,
    Event,
    Failed,
    Finished,
    Forget,
    Generate,
    Loaded,
    LoadProgress,
    Memory,
    Message,
    Notice,
    Problem,
    PromptProgress,
    Round,
    Stop,
)

FLUSH_S = 0.25
STAGES = {"download": "Downloading", "import": "Importing", "read": "Loading", "check": "Checking"}


class Conversation(EngineKeeper):
    """Owns what happens; the store, the settings and the engine's process are lent to it."""

    # --------------------------------------------------------------------------------------------- chats

    def open_chat(self, chat_id: int) -> None:
        """Show a chat, all that was written into it so far included."""
        self._save()
        if self._writing is not None:
            self._store.flush()
        if self._store.chat(chat_id) is not None:
            self.own.open(chat_id)
        super().open_chat(chat_id)

    def delete_chats(self, chat_ids: Sequence[int]) -> None:
        """Put chats into the trash; a reply that is being written into one of them is stopped."""
        if self._writing is not None and self._writing.row.chat_id in chat_ids:
            self.stop()
        if self._waiting is not None and self._waiting.chat_id in chat_ids:
            self._waiting = None
        super().delete_chats(chat_ids)

    def forget_removed(self) -> None:
        """Have the engine forget the replies of chats that are gone for good, now if it runs; else at the next load."""
        if self._client.alive:
            for number in self._shelf.owed():
                self._client.send(Forget(str(number)))

    # --------------------------------------------------------------------------------------------- turns

    def send(self, text: str) -> None:
        """Say something in the open chat. Kept at once; answered now, or as soon as the engine is ready.

        Raises `Problem`, with nothing changed, if a reply is still being written, the disk does not take it, or
        (`Full`) it does not fit into the context.
        """
        if not text.strip("\0 \t\r\n"):
            return
        self._refuse_while_busy()
        if self._chat is None:
            self.new_chat()
        assert self._chat is not None
        path = self._store.messages(self._chat.id)
        self._prompt(self._chat.id, path, text)
        self._say(self._chat, path[-1].id if path else None, text)

    def edit(self, message_id: int, text: str) -> None:
        """Say it differently: a sibling of the message, which stays as it was, with a reply of its own.

        A reply can be edited, too: its sibling is what the conversation goes on from.
        """
        row = self._store.message(message_id)
        if row is None or not text.strip("\0 \t\r\n"):
            return
        chat = self._store.chat(row.chat_id)
        if chat is None:
            return
        try:
            if row.role == "assistant":
                self._refuse_while_writing(chat.id)
                self._show(chat, rewrite(self._store, row, text).id)
                return
            self._refuse_while_busy()
            self._prompt(chat.id, self._path_to(chat.id, row.parent_id), text)
            self._show(chat, row.parent_id)
            self._say(chat, row.parent_id, text)
        except Problem as e:
            self._refused(e, chat.id, lambda: self.edit(message_id, text), text)

    def regenerate(self, message_id: int) -> None:
        """Write another reply beside the one that is there."""
        row = self._store.message(message_id)
        chat = self._store.chat(row.chat_id) if row else None
        if row is None or chat is None or row.parent_id is None:
            return
        prompt = self._store.message(row.parent_id)
        if prompt is None:
            return
        try:
            self._refuse_while_busy()
            self._prompt(chat.id, self._path_to(chat.id, prompt.id))
            self._show(chat, prompt.id)
            self._answer(prompt)
        except Problem as e:
            self._refused(e, chat.id, lambda: self.regenerate(message_id))

    def go_on(self, message_id: int) -> None:
        """Write on where a reply ended: in a sibling that begins with the same text."""
        row = self._store.message(message_id)
        chat = self._store.chat(row.chat_id) if row else None
        if row is None or chat is None or not can_go_on(row):
            return
        try:
            self._refuse_while_busy()
            self._refuse_unready()
            assert self._info is not None
            messages = tuple(self._prompt(chat.id, self._path_to(chat.id, row.id)))
            fresh, before = fork(self._store, row, self._info.model)
            self._show(chat, fresh.id)
        except Problem as e:
            self._refused(e, chat.id, lambda: self.go_on(message_id))
            return
        self._write(Writing(fresh, next(self._numbers), messages, before, row.stats))

    def show_branch(self, message_id: int) -> None:
        """Show a message that is on another branch, and what was said after it last."""
        row = self._store.message(message_id)
        chat = self._store.chat(row.chat_id) if row else None
        if row is not None and chat is not None:
            self._save()
            if self._writing is not None:
                self._store.flush()
            self._show(chat, leaf_of(self._store, chat.id, message_id))

    def _show(self, chat: ChatRow, leaf: int | None) -> None:
        self._store.set_head(chat.id, leaf)
        self.chat_opened.emit(chat, self._store.messages(chat.id))

    def _refuse_while_writing(self, chat_id: int) -> None:
        if self._writing is not None and self._writing.row.chat_id == chat_id:
            raise Problem("A reply is still being written.", "Wait for its end, or stop it first.")

    def _refuse_while_busy(self) -> None:
        if self._writing is not None:
            raise Problem("A reply is still being written.", "Wait for its end, or stop it first.")
        if self._held:
            raise Problem("A race is being run.", "Wait for its end, or stop it first.")

    def _refuse_unready(self) -> None:
        if self._state is EngineState.ASLEEP:
            self.restart_engine()
        if self._state is not EngineState.IDLE or self._info is None:
            raise Problem("The engine is not ready.", "Wait until a model is loaded.")

    def hold(self, words: str) -> None:
        """Keep the engine for something that is no reply, until `release`. Raises `Problem` while it is not free."""
        self._refuse_while_busy()
        self._refuse_unready()
        self._held = True
        self._set_state(EngineState.GENERATING, words)

    def release(self) -> None:
        """The engine is free again."""
        self._held = False
        if self._state is EngineState.GENERATING:
            self._set_state(EngineState.IDLE, "Ready")

    def _path_to(self, chat_id: int, message_id: int | None) -> list[MessageRow]:
        """What leads to a message, shown or not, that one included."""
        return self._store.messages(chat_id, message_id) if message_id is not None else []

    def _prompt(self, chat_id: int, path: Sequence[MessageRow], said: str | None = None) -> list[Message]:
        """What is said to the model. Raises `Full` where it does not fit."""
        messages = [Message(m.role, m.text) for m in path if m.text or m.role == "user"]
        if said is not None:
            messages.append(Message("user", said))
        system = self._in(chat_id)(SYSTEM_PROMPT).strip()
        return self.room.fit(chat_id, messages, system, self._info.context if self._info else 0)

    def _refused(self, e: Problem, chat_id: int, again: Callable[[], None], unsent: str = "") -> None:
        """Say why something could not be said; where it does not fit, offer to do it without the oldest turns."""

        def without_oldest() -> None:
            self.room.agree(chat_id)
            again()

        if isinstance(e, Full) and e.can_drop:
            self.full.emit(e, without_oldest)
        else:
            self.problem.emit(Failed(0, e.message, e.remedy))
        if unsent:
            self.unsent.emit(unsent)

    def _say(self, chat: ChatRow, parent: int | None, text: str) -> None:
        row = self._store.add_message(chat.id, parent, "user", text)
        if not chat.title:
            self._store.rename_chat(chat.id, title_of(subject(row.text)))
        self.message_added.emit(row)
        self.refresh_chats()
        self._answer(row)

    def _answer(self, prompt: MessageRow) -> None:
        if self._state is not EngineState.IDLE or self._info is None:
            self._waiting = prompt
            if self._state is EngineState.ASLEEP:
                self.restart_engine()
            elif self._state in (EngineState.DEAD, EngineState.NO_MODEL):
                self.problem.emit(
                    Failed(0, "Your message is kept; the engine is not ready.", "It is answered once a model is there.")
                )
            return
        self._waiting = None
        try:
            messages = tuple(self._prompt(prompt.chat_id, self._path_to(prompt.chat_id, prompt.id)))
        except Full as e:  # said while no model was there that could tell
            self._refused(e, prompt.chat_id, lambda: self._answer(prompt))
            return
        row = self._store.add_message(prompt.chat_id, prompt.id, "assistant", "", "writing", self._info.model)
        self._write(Writing(row, next(self._numbers), messages))

    def _write(self, writing: Writing) -> None:
        """Ask the engine for a reply, or for more of one."""
        self._writing, row = writing, writing.row
        self.message_added.emit(row)
        self._set_state(EngineState.PREFILLING, "Reading the prompt", 0.0)
        chat = self._store.chat(row.chat_id)
        keep = self._settings.get(KEEP_REPLIES) and chat is not None and not chat.incognito
        kept = str(row.chat_id) if keep else None
        sampling, drafters = sampling_of(self._in(row.chat_id)), self._drafters(row.chat_id)
        self._client.send(Generate(writing.request, writing.prompt, sampling, drafters, kept))

    def stop(self) -> None:
        """Stop the reply after the pass that is running; what came stays."""
        if self._writing is not None and self._state is not EngineState.DEAD:
            self._client.send(Stop(self._writing.request))
            self._set_state(EngineState.STOPPING, "Stopping")

    # -------------------------------------------------------------------------------------------- events

    def _wake(self) -> None:
        """Something came: taken at once, unless the frame timer takes it with the rest of its frame."""
        if not self._frame.isActive():
            self._drain()

    def _drain(self) -> None:
        """Take what the engine said; all rounds of one frame are shown together."""
        rounds: list[Round] = []
        for event in self._client.drain():
            if isinstance(event, Round):
                if self._writing is not None and event.request == self._writing.request:
                    rounds.append(event)
                continue
            if rounds:
                self._take_rounds(rounds)
                rounds = []
            self._take(event)
        if rounds:
            self._take_rounds(rounds)
        if self._writing is not None and time.monotonic() - self._writing.saved_at > FLUSH_S:
            self._save()

    def _take_rounds(self, rounds: list[Round]) -> None:
        if self._writing is None:
            return
        if before := self._writing.before:
            rounds = [replace(r, index=r.index + before) for r in rounds]
        self._writing.unsaved += rounds
        if self._state is EngineState.PREFILLING:
            self._set_state(EngineState.GENERATING, "Writing")
        self.rounds_arrived.emit(self._writing.row.id, rounds)

    def _save(self) -> None:
        if self._writing is None:
            return
        self._writing.saved_at = time.monotonic()
        if self._writing.unsaved:
            self._store.append_rounds(self._writing.row.id, self._writing.unsaved)
            self._writing.unsaved = []

    def _take(self, event: Event) -> None:
        if isinstance(event, Memory):
            self.memory_changed.emit(event)
        elif isinstance(event, Counted):
            self.room.counter.take(event)
        elif isinstance(event, Notice):
            self.problem.emit(Failed(0, event.message))
        elif isinstance(event, LoadProgress) and event.request == self._loading:
            share = event.done / event.total if event.total else -1.0
            self._set_state(EngineState.LOADING, f"{STAGES.get(event.stage, event.stage)} {event.what}", share)
        elif isinstance(event, Loaded) and event.request == self._loading:
            self._info = event.info
            self.room.set_model(event.info.context)
            self._shelf.settle(self._forgetting)
            self._forgetting = []
            self._set_state(EngineState.IDLE, "Ready")
            self.model_loaded.emit(event.info)
            self.drafters_changed.emit(self._drafters(self.own.chat_id))
            if self._waiting is not None:
                self._answer(self._waiting)
        elif isinstance(event, Failed) and event.request == self._loading:
            self._info = None
            self._set_state(EngineState.NO_MODEL, "No model is loaded")
            self.problem.emit(event)
        elif self._writing is not None and getattr(event, "request", None) == self._writing.request:
            self._take_of_reply(event)

    def _take_of_reply(self, event: Event) -> None:
        assert self._writing is not None
        if isinstance(event, PromptProgress):
            self.prompt_progress.emit(self._writing.row.id, event)
            if self._state is EngineState.PREFILLING:
                self._set_state(EngineState.PREFILLING, "Reading the prompt", event.done / max(1, event.total))
        elif isinstance(event, Finished):
            if not self._writing.before:
                self.room.counter.learn(self._writing.prompt, event.prompt_tokens)
            event = joined(self._writing.earlier, event)
            self._end_reply("stopped" if event.reason == "stopped" else "done", "", event)
            self._set_state(EngineState.IDLE, "Ready")
        elif isinstance(event, Failed):
            self._end_reply("failed", event.message)
            self._set_state(EngineState.IDLE, "Ready")
            self.problem.emit(event)

    def _end_reply(self, state: str, note: str, finished: Finished | None = None) -> None:
        """The reply is over, well or not: what came is on the disk and marked."""
        writing = self._writing
        if writing is None:
            return
        self._save()
        self._writing = None
        try:
            row = self._store.finish(
                writing.row.id, state, note or writing.row.note, finished, finished.tail if finished else ()
            )
        except Problem as e:
            row = writing.row
            self.problem.emit(Failed(0, e.message, e.remedy))
        self.reply_finished.emit(row, finished)

    def close(self) -> None:
        """Keep what came, end the engine. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._frame.stop()
        self._drain()
        if self._writing is not None:
            self._end_reply("cut", "The app was closed while this was written.")
        self._awake.hold(False)
        self._client.close()
        self._store.flush()
