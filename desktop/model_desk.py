"""Models > Browse Models: the browser, the queue of downloads behind it, and what is done once one is chosen.

The queue is opened when it is first needed, or soon after the start where an earlier run left downloads to go on with.
While anything is fetched the machine is kept awake. The window's own part is three lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget

from desktop.color_scheme import inherit_scheme
from desktop.conversation import Conversation
from desktop.macos import Awake
from desktop.settings import CONTEXT, DRAFT_MODEL, MODEL, Settings
from models.paths import downloads_dir

if TYPE_CHECKING:  # the browser and what it asks are brought in when they are first needed: the window opens sooner
    from desktop.dialogs.models_browser import ModelsBrowser
    from models.queue import DownloadQueue

GO_ON_MS = 1_500  # after the start, when the window stands
LOOK_MS = 1_000
ENDS = {"done": "is downloaded: Models > Browse Models uses it", "failed": "could not be downloaded"}


class ModelDesk(QObject):
    """One browser and one queue, made when they are first asked for. `load` loads a model and a draft model ("" for
    none); `tell` says a sentence in the window."""

    def __init__(
        self,
        parent: QWidget,
        conversation: Conversation,
        settings: Settings,
        load: Callable[[str, str], object],
        tell: Callable[[str], object],
    ) -> None:
        super().__init__(parent)
        self._parent, self._talk, self._settings = parent, conversation, settings
        self._load, self._tell = load, tell
        self.queue: DownloadQueue | None = None
        self.browser: ModelsBrowser | None = None
        self._awake = Awake()
        self._states: dict[str, str] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._look)
        if (downloads_dir() / "queue.json").exists():
            QTimer.singleShot(GO_ON_MS, self, self._go_on)

    def open(self, page: int = 0) -> ModelsBrowser:
        """Show the browser, at a page."""
        browser = self.browser or self._make()
        browser.show_page(page)
        browser.show()
        browser.activateWindow()
        return browser

    def close(self) -> None:
        """The app ends: what is being fetched goes on at the next start."""
        self._timer.stop()
        self._awake.hold(False)
        if self.queue is not None:
            self.queue.close()

    def _go_on(self) -> None:
        from models.queue import unfinished

        if self.queue is None and unfinished():
            self._open_queue()

    def _open_queue(self) -> DownloadQueue:
        from models.queue import DownloadQueue

        if self.queue is None:
            self.queue = DownloadQueue()
            self._states = {job.name: job.state for job in self.queue.jobs()}
            self._timer.start()
        return self.queue

    def _make(self) -> ModelsBrowser:
        from desktop.dialogs.models_browser import ModelsBrowser

        browser = self.browser = ModelsBrowser(
            self._open_queue(), self._parent, context=lambda: self._settings.get(CONTEXT), in_use=self._in_use
        )
        inherit_scheme(browser)
        browser.chosen.connect(self._choose)
        return browser

    def _in_use(self) -> tuple[str, ...]:
        info = self._talk.info
        return (info.model, info.draft or "") if info is not None else ()

    def _choose(self, model: str | None, draft: str | None) -> None:
        """None keeps the one that is set; another model does not take the draft model of the one before along."""
        if model is not None and draft is None:
            draft = self._settings.get(DRAFT_MODEL) if model == self._settings.get(MODEL) else ""
        if self.browser is not None:
            self.browser.hide()
        self._load(self._settings.get(MODEL) if model is None else model, draft or "")

    def _look(self) -> None:
        """Tell what has come, and let the machine sleep when nothing does."""
        assert self.queue is not None
        self._awake.hold(self.queue.busy)
        states = {job.name: job.state for job in self.queue.jobs()}
        for name, state in states.items():
            if state != self._states.get(name) and state in ("done", "failed"):
                if self.browser is None or not self.browser.isVisible():
                    self._tell(f"{name} {ENDS[state]}.")
                if self.browser is not None:
                    self.browser.downloads.refresh()
        self._states = states
