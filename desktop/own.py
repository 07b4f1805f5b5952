"""What a chat has of its own: settings that differ from everyone's, and the preset that they came from.

A chat is given a preset's values when the preset is chosen, and keeps them: a preset that is changed or removed later
changes no chat. What a chat does not have of its own follows the settings. Knows the store and the settings; no
widget, no engine.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal

from desktop.settings import DRAFTERS, PER_CHAT, STOP, SYSTEM_PROMPT, Setting, Settings, drafters_of, sampling_of
from desktop.store import Store, plain
from mlx_spec.events import DrafterSettings, Problem, SamplingSettings

T = TypeVar("T")
SHOWN = 5  # parts of a summary
BY_KEY = {setting.key: setting for setting in PER_CHAT}


@dataclass(frozen=True, slots=True)
class Own:
    """`values` by the settings' keys; `preset` is the name of the one that they came from, "" for none."""

    preset: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values in their own types. Raises `Problem` for one that its setting cannot have; unknown keys are left out."""
    return {key: BY_KEY[key].check(value) for key, value in values.items() if key in BY_KEY}


def own_of(store: Store, chat_id: int) -> Own:
    """What a chat has of its own; what is not usable in it is left out."""
    rows = store.read("SELECT own FROM chats WHERE id=?", (chat_id,), chat_id)
    try:
        data = json.loads(rows[0][0]) if rows and rows[0][0] else {}
        given = dict(data.get("values", {}))
    except (ValueError, AttributeError, TypeError):
        return Own()
    values: dict[str, Any] = {}
    for key, value in given.items():
        try:
            values |= checked({key: value})
        except (Problem, TypeError):
            continue
    return Own(str(data.get("preset", "")), values)


def keep_own(store: Store, chat_id: int, own: Own) -> None:
    """Write it down. Raises `Problem` if it is not on the disk in time."""
    text = json.dumps({"preset": own.preset, "values": dict(own.values)}) if own.preset or own.values else ""

    def job(c: sqlite3.Connection) -> None:
        c.execute("UPDATE chats SET own=? WHERE id=?", (plain(text), chat_id))

    store.change(job, chat_id)


def getter(settings: Settings, own: Own) -> Callable[[Setting[Any]], Any]:
    """Reads a setting where some are a chat's own."""
    return lambda setting: own.values.get(setting.key, settings.get(setting))


class ChatSettings(QObject):
    """The settings as they are in one chat; they are read and set like `Settings`."""

    changed = Signal(object)  # the Setting
    named = Signal()  # another preset, whatever its values

    def __init__(self, store: Store, settings: Settings, chat_id: int = 0) -> None:
        super().__init__()
        self._store, self._settings = store, settings
        self.chat_id = 0
        self.own = Own()
        self.open(chat_id)
        settings.changed.connect(self._changed_for_all)

    def open(self, chat_id: int) -> None:
        """Be about another chat from now on; `changed` tells all that is different there."""
        before = self.own
        self.chat_id = chat_id
        self.own = own_of(self._store, chat_id) if chat_id else Own()
        self._tell(before)

    def _tell(self, before: Own) -> None:
        if before.preset != self.own.preset:
            self.named.emit()
        for setting in PER_CHAT:
            was = before.values.get(setting.key, self._settings.get(setting))
            if was != self.get(setting) or (setting.key in before.values) != (setting.key in self.own.values):
                self.changed.emit(setting)

    def _changed_for_all(self, setting: Setting[Any]) -> None:
        if setting.key not in self.own.values:
            self.changed.emit(setting)

    def get(self, setting: Setting[T]) -> T:
        """The value in this chat."""
        if setting.key in self.own.values:
            value: T = self.own.values[setting.key]
            return value
        return self._settings.get(setting)

    def default(self, setting: Setting[T]) -> T:
        """What it is in chats that have nothing of their own."""
        return self._settings.get(setting)

    def has(self, setting: Setting[Any]) -> bool:
        """Whether the chat has a value of its own, be it the same as everyone's."""
        return setting.key in self.own.values

    def set(self, setting: Setting[T], value: T) -> None:
        """Set a value for this chat alone; everyone's value leaves nothing of its own. Raises `Problem`."""
        value = setting.check(value)
        values = {k: v for k, v in self.own.values.items() if k != setting.key}
        if value != self._settings.get(setting):
            values[setting.key] = value
        self._keep(Own(self.own.preset, values))

    def use(self, preset: str, values: Mapping[str, Any]) -> None:
        """Have exactly these values of its own, from a preset. Raises `Problem`."""
        self._keep(Own(preset, checked(values)))

    def _keep(self, own: Own) -> None:
        if self.chat_id:
            keep_own(self._store, self.chat_id, own)
        before, self.own = self.own, own
        self._tell(before)

    def differing(self) -> list[Setting[Any]]:
        """The settings whose value here is not everyone's."""
        return [setting for setting in PER_CHAT if self.get(setting) != self._settings.get(setting)]

    def sampling(self) -> SamplingSettings:
        """How the next token is chosen in this chat."""
        return sampling_of(self.get)

    def drafter_settings(self) -> DrafterSettings:
        """Who drafts in this chat, how much, and when it holds."""
        return drafters_of(self.get)

    def summary(self) -> str:
        """What is different here, in a line: "Coder: temperature 0.2, own system prompt"; "" if nothing is."""
        parts = []
        for setting in self.differing():
            value = self.get(setting)
            if setting in (SYSTEM_PROMPT, DRAFTERS, STOP):
                parts.append(f"own {setting.short.lower()}")
            else:
                parts.append(f"{setting.short.lower()} {'automatic' if value is None else f'{value:g}'}")
        if len(parts) > SHOWN:
            parts[SHOWN - 1 :] = [f"{len(parts) - SHOWN + 1} more"]
        return ": ".join(part for part in (self.own.preset, ", ".join(parts)) if part)
