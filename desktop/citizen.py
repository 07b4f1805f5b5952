"""Ties the app to the system that it runs on: screens, screen readers, contrast, motion, notices, memory,
files from outside.

Called once, when there is a window. Each of them is a file of its own and can be tried alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication

from desktop.announcer import Announcer
from desktop.attention import Attention
from desktop.comfort import follow_contrast, less_motion
from desktop.dialogs.background import Background
from desktop.idle import Idle
from desktop.opened import Opened, Sorted, sort
from desktop.screens import bring_back
from desktop.settings import DRAFT_MODEL, MODEL, SHOW_REJECTED
from mlx_spec.events import Failed, Problem

if TYPE_CHECKING:
    from desktop.window import MainWindow


class Citizen(QObject):
    """What the window owes to the system."""

    def __init__(self, window: MainWindow, opened: Opened) -> None:
        super().__init__(window)
        self._window = window
        self._still = False
        self._background = Background(self)
        talk = window.conversation
        self.announcer = Announcer(window.transcript, window.settings)
        talk.rounds_arrived.connect(self.announcer.add_rounds)
        talk.reply_finished.connect(self.announcer.reply_finished)
        self.attention = Attention(window, talk, window.settings, window.store.chat)
        self.idle = Idle(talk, window.settings, window.notice.tell)
        window.composer.text_changed.connect(lambda text: self.idle.touch() if text else None)
        opened.arrived.connect(self.open_files)
        follow_contrast()
        bring_back(window)
        application = QGuiApplication.instance()
        if isinstance(application, QGuiApplication):
            application.screenRemoved.connect(lambda _screen: bring_back(window))
        talk.message_added.connect(lambda _row: self.keep_still())
        window.settings.changed.connect(lambda _setting: self.keep_still())
        self.keep_still()

    def keep_still(self) -> None:
        """Rejected drafts push the line to and fro: where less motion is wished for, they do not stand in it."""
        still = less_motion()
        if still:
            self._window.transcript.set_show_rejected(False)
        elif self._still:
            self._window.transcript.set_show_rejected(self._window.settings.get(SHOW_REJECTED))
        self._still = still

    def open_files(self, paths: Sequence[Path]) -> None:
        """Do what is meant by files that were opened with the app. They are looked at beside the window."""
        self._background.run(lambda: sort(paths), self._take, self._not_taken)

    def _take(self, found: Sorted) -> None:
        window = self._window
        window.showNormal() if window.isMinimized() else window.show()
        window.raise_()
        window.activateWindow()
        if found.chats:
            window.desk.actions.import_files(found.chats)
        if found.attachments:
            window.composer.tray.read(found.attachments)
            window.composer.setFocus()
        if found.model is not None:
            self._load(str(found.model))

    def _load(self, model: str) -> None:
        window = self._window
        try:
            window.settings.set(MODEL, model)
            window.settings.set(DRAFT_MODEL, "")
        except Problem as problem:
            window.conversation.problem.emit(Failed(0, problem.message, problem.remedy))
            return
        window.conversation.load(model)

    def _not_taken(self, error: Exception) -> None:
        self._window.conversation.problem.emit(Failed(0, f"A file could not be looked at ({error})."))
