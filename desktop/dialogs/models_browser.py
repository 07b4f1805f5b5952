"""The model browser: find, downloads, on this disk. Closing it stops no download."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QTabWidget, QVBoxLayout, QWidget

from desktop.dialogs.models_disk import DiskPage
from desktop.dialogs.models_find import FindPage
from desktop.dialogs.models_queue import QueuePage
from models.queue import DownloadQueue
from models.repo import Plan

FIND, DOWNLOADS, DISK = range(3)


class ModelsBrowser(QDialog):
    """`chosen` carries a model and a draft model ("" for none, None to keep the one that is set)."""

    chosen = Signal(object, object)

    def __init__(
        self,
        queue: DownloadQueue,
        parent: QWidget | None = None,
        context: Callable[[], int | None] = lambda: None,
        in_use: Callable[[], Sequence[str]] = lambda: (),
        finder: FindPage | None = None,
        disk: DiskPage | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Models")
        self._queue = queue
        self.finder = finder or FindPage(context=context)
        self.downloads = QueuePage(queue)
        self.disk = disk or DiskPage(in_use=in_use)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        for page, title in ((self.finder, "Find"), (self.downloads, "Downloads"), (self.disk, "On This Disk")):
            self.tabs.addTab(page, title)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.hide)
        close = buttons.button(QDialogButtonBox.StandardButton.Close)
        close.setAutoDefault(False)
        self.finder.go.setDefault(True)
        column = QVBoxLayout(self)
        column.addWidget(self.tabs, 1)
        column.addWidget(buttons)
        self.finder.wanted.connect(self._fetch)
        self.finder.use_wanted.connect(lambda model, draft: self.chosen.emit(model, draft))
        self.downloads.use_wanted.connect(lambda source: self.chosen.emit(source, None))
        self.downloads.changed.connect(self._queue_changed)
        self.disk.use_wanted.connect(lambda source: self.chosen.emit(source, None))
        self.disk.draft_wanted.connect(lambda source: self.chosen.emit(None, source))
        self.disk.changed.connect(self.finder.details.again)
        self.tabs.currentChanged.connect(self._turned)
        self.finder.line.setFocus()
        self.setMinimumSize(840, 440)
        self._queue_changed()

    def sizeHint(self) -> QSize:
        return QSize(1020, 620)

    def show_page(self, index: int) -> None:
        """Turn to a page: FIND, DOWNLOADS or DISK."""
        self.tabs.setCurrentIndex(index)
        self._turned(index)

    def _turned(self, index: int) -> None:
        if index == DISK:
            self.disk.refresh()

    def _fetch(self, plans: list[Plan]) -> None:
        self.downloads.add(plans)
        self.show_page(DOWNLOADS)

    def _queue_changed(self) -> None:
        """The tab says how many are under way; what has come can be used."""
        under_way = sum(job.state in ("waiting", "running", "checking") for job in self._queue.jobs())
        self.tabs.setTabText(DOWNLOADS, f"Downloads ({under_way})" if under_way else "Downloads")
        self.finder.details.again()
