"""Runs a race on the engine: a few tokens that read the prompt, then plain, then drafted.

One machine cannot run two laps at once without slowing both, so they follow each other and are shown side by side
afterwards, each by its own clock. Nothing of a race is kept: no chat, no past replies. Knows no widget.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from desktop.conversation import Conversation
from desktop.engine_keeper import EngineState
from desktop.race.result import Lap, Race
from desktop.sidebar.live_sidebar import model_title
from mlx_spec.events import (
    DrafterSettings,
    Event,
    Failed,
    Finished,
    Generate,
    Message,
    Problem,
    PromptProgress,
    Round,
    SamplingSettings,
    Stop,
)

FIRST_REQUEST = 1 << 40  # far above the numbers of chats' requests
WARM_TOKENS = 4
LEFT_OUT = ("history",)  # it may know the answer from the last time it was asked
PLAIN, DRAFTED = 0, 1


class Runner(QObject):
    """At most one race at a time."""

    reading = Signal(object)  # PromptProgress, before the laps
    begun = Signal(int)  # a lap
    came = Signal(int, list)  # rounds of a lap
    done = Signal(object)  # the Race
    failed = Signal(str)  # in words; "" where the person stopped it

    def __init__(self, conversation: Conversation, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client, self._conversation = conversation.client, conversation
        self._numbers = itertools.count(FIRST_REQUEST)
        self._request: int | None = None
        self._lap = -1
        self.race: Race | None = None  # the last one, or the one that runs
        self._stopped = False
        conversation.state_changed.connect(self._state_changed)
        self._client.died.connect(self._died)

    @property
    def running(self) -> bool:
        return self._request is not None

    def start(self, messages: Sequence[Message], sampling: SamplingSettings, wanted: DrafterSettings) -> None:
        """Begin. `sampling` has a seed. Raises `Problem` while the engine is busy or where nothing can draft."""
        info = self._conversation.info
        able = tuple(n for n in wanted.names if info is None or n in info.drafters)
        names = tuple(n for n in able if n not in LEFT_OUT)
        if info is not None and not names:
            raise Problem("No drafter that can race is switched on.", "Tick one in the Settings menu.")
        self._conversation.hold("Racing")
        assert info is not None
        self.race = Race(
            tuple(messages),
            model_title(info.model),
            sampling,
            Lap("Plain"),
            Lap("With drafts", names),
            tuple(n for n in able if n in LEFT_OUT),
        )
        self._settings = replace(wanted, names=names, rule="match")
        self._stopped = False
        self._client.divert = self._take
        self._run(-1)

    def stop(self) -> None:
        """Break the race off after the pass that is running."""
        if self._request is not None:
            self._stopped = True
            self._client.send(Stop(self._request))

    def _run(self, lap: int) -> None:
        assert self.race is not None
        self._lap, self._request = lap, next(self._numbers)
        sampling, drafters = self.race.sampling, replace(self._settings, names=())
        if lap < 0:
            sampling = replace(sampling, max_tokens=min(WARM_TOKENS, sampling.max_tokens or WARM_TOKENS))
        elif lap == DRAFTED:
            drafters = self._settings
        if lap >= 0:
            self.begun.emit(lap)
        self._client.send(Generate(self._request, self.race.messages, sampling, drafters, None))

    def _take(self, event: Event) -> bool:
        """Whether an event belongs to the race, which then has taken it."""
        if self._request is None or getattr(event, "request", None) != self._request:
            return False
        race = self.race
        assert race is not None
        lap = (race.plain, race.drafted)[max(0, self._lap)]
        if isinstance(event, PromptProgress):
            if self._lap < 0:
                self.reading.emit(event)
        elif isinstance(event, Round):
            if self._lap >= 0:
                lap.rounds.append(event)
                self.came.emit(self._lap, [event])
        elif isinstance(event, Failed):
            self._end(f"{event.message} {event.remedy}".strip())
        elif isinstance(event, Finished):
            if self._stopped:
                self._end("")
            elif self._lap == DRAFTED:
                lap.finished = event
                self._free()
                self.done.emit(race)
            else:
                if self._lap == PLAIN:
                    lap.finished = event
                self._run(self._lap + 1)
        return True

    def _end(self, words: str) -> None:
        self._free()
        self.failed.emit(words)

    def _free(self) -> None:
        self._request, self._client.divert = None, None
        self._conversation.release()

    def _state_changed(self, state: EngineState, _text: str, _progress: float) -> None:
        if self.running and state in (EngineState.LOADING, EngineState.NO_MODEL, EngineState.DEAD):
            assert self._request is not None
            self._client.send(Stop(self._request))  # what comes next must not wait for the rest of the lap
            self._end("Another model is being loaded." if state is EngineState.LOADING else "The engine ended.")

    def _died(self, words: str) -> None:
        if self.running:
            self._end(words)
