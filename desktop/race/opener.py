"""Opens the Race window and puts it together with what runs it. The main window's own part is one line."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from desktop.color_scheme import inherit_scheme
from desktop.conversation import Conversation
from desktop.race.race_window import RaceWindow
from desktop.race.runner import Runner
from desktop.settings import SEED, SYSTEM_PROMPT
from mlx_spec.events import Message, Problem, Round


class RaceOpener(QObject):
    """One Race window, made when it is first asked for."""

    def __init__(self, parent: QWidget, conversation: Conversation) -> None:
        super().__init__(parent)
        self._parent, self._settings = parent, conversation.own  # as in the open chat
        self.runner = Runner(conversation, self)
        self.window: RaceWindow | None = None

    def open(self, prompt: str = "") -> RaceWindow:
        """Show the window; with a prompt, unless a race is running, that is what would be asked."""
        window = self.window or self._make()
        if prompt.strip() and not self.runner.running:
            window.prompt.setPlainText(prompt)
        window.show()
        window.activateWindow()
        return window

    def stop(self) -> None:
        """Break off what runs."""
        self.runner.stop()

    def _make(self) -> RaceWindow:
        window = self.window = RaceWindow(self._parent)
        inherit_scheme(window)
        seed = self._settings.get(SEED)
        if seed is not None:
            window.seed.setValue(seed)
        window.start_requested.connect(self._start)
        runner = self.runner
        window.stop_requested.connect(runner.stop)
        runner.reading.connect(window.reading)
        runner.begun.connect(window.lap_begun)
        runner.came.connect(self._came)
        runner.done.connect(window.show_race)
        runner.failed.connect(window.failed)
        return window

    def _start(self, prompt: str, longest: int, seed: int) -> None:
        assert self.window is not None
        settings = self._settings
        messages = [Message("user", prompt)]
        if system := settings.get(SYSTEM_PROMPT).strip():
            messages.insert(0, Message("system", system))
        sampling = replace(settings.sampling(), seed=seed, max_tokens=longest)
        try:
            self.runner.start(messages, sampling, settings.drafter_settings())
        except Problem as problem:
            self.window.refused(problem)
        else:
            self.window.started()

    def _came(self, lap: int, rounds: list[Round]) -> None:
        race = self.runner.race
        if self.window is not None and race is not None:
            self.window.lanes[lap].add((race.plain, race.drafted)[lap])
