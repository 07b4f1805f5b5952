"""Gives a model's memory back when nothing has been asked of it for long, or sooner when the machine is short of it.

A model of many gigabytes that only waits is what the rest of the machine pays for. It is loaded again as soon as
somebody types. When to do it is a function of plain values.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from desktop import macos
from desktop.conversation import Conversation
from desktop.engine_keeper import EngineState
from desktop.settings import UNLOAD_AFTER, Settings

LOOK_MS = 20_000
PRESSED_S = 120.0  # of idleness that are enough when memory is short
SHORT = "The machine is short of memory, so the model was unloaded. It is loaded again when you write."


def due(minutes: int | None, idle_s: float, pressure: str) -> bool:
    """Whether to unload after `idle_s` seconds without use. `minutes` None: only where memory is critically short."""
    if pressure == "critical" and idle_s >= PRESSED_S:
        return True
    return minutes is not None and idle_s >= minutes * 60


class Idle(QObject):
    """Watches the conversation; `touch` says that the person is about to use the model."""

    def __init__(
        self,
        talk: Conversation,
        settings: Settings,
        tell: Callable[[str], object],
        pressure: Callable[[], str] = macos.memory_pressure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(talk)
        self._talk, self._settings, self._tell = talk, settings, tell
        self._pressure, self._clock = pressure, clock
        self._since = clock()
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self.look)
        talk.state_changed.connect(self._state_changed)

    def touch(self) -> None:
        """Somebody types: the clock starts anew, and a model that rests is loaded."""
        self._since = self._clock()
        if self._talk.state is EngineState.ASLEEP:
            self._talk.restart_engine()

    def look(self) -> None:
        """Unload if it is time."""
        minutes, idle = self._settings.get(UNLOAD_AFTER), self._clock() - self._since
        pressure = self._pressure()
        if self._talk.state is EngineState.IDLE and due(minutes, idle, pressure):
            self._talk.sleep()
            if not due(minutes, idle, ""):
                self._tell(SHORT)

    def _state_changed(self, state: EngineState, words: str, progress: float) -> None:
        if state is not EngineState.IDLE:
            self._timer.stop()
        elif not self._timer.isActive():
            self._since = self._clock()
            self._timer.start()
