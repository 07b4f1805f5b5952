"""The downloads as rows: a bar each, what is left, and buttons to pause, go on, give up and use.

Draws what the queue says a few times a second while it is seen; the queue's own threads do the work.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from desktop.dialogs.background import Background, problem_text
from desktop.dialogs.models_words import label, say, time_text
from desktop.sidebar.stats import bytes_text
from models.queue import DownloadQueue, Job
from models.repo import Plan

REDRAW_MS = 250
EMPTY = "Nothing is being downloaded. What you fetch appears here, and goes on after a restart."


class JobRow(QFrame):
    """One download."""

    use_wanted = Signal(str)
    asked = Signal(str, str)  # what to do, and with which

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.title = QLabel(name)
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.title.setToolTip(name)
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(8)
        self.bar.setAccessibleName(f"Progress of {name}")
        self.state = label(small=True, select=True)
        self.main = QPushButton()
        self.cancel = QPushButton("Give Up")
        self.main.clicked.connect(self._main)
        self.cancel.clicked.connect(lambda: self.asked.emit("cancel", self._name))
        top = QHBoxLayout()
        top.addWidget(self.title, 1)
        top.addWidget(self.main)
        top.addWidget(self.cancel)
        column = QVBoxLayout(self)
        column.setContentsMargins(4, 6, 4, 10)
        column.setSpacing(4)
        column.addLayout(top)
        column.addWidget(self.bar)
        column.addWidget(self.state)
        self._action = ""

    def show_job(self, job: Job) -> None:
        """Show how it stands."""
        total = job.plan.bytes
        self.bar.setValue(round(1000 * job.done / total) if total else 0)
        self.bar.setVisible(job.state != "done")
        self._action = {"paused": "resume", "failed": "resume", "done": "use"}.get(job.state, "pause")
        text = {"resume": "Try Again" if job.state == "failed" else "Resume", "use": "Use It"}.get(
            self._action, "Pause"
        )
        if self.main.text() != text:
            self.main.setText(text)
            self.main.setAccessibleName(f"{text}: {job.name}")
        self.cancel.setVisible(job.state != "done")
        said = state_words(job)
        if self.state.text() != said:
            say(self.state, said, job.state == "failed")

    def _main(self) -> None:
        if self._action == "use":
            self.use_wanted.emit(self._name)
        else:
            self.asked.emit(self._action, self._name)


def state_words(job: Job) -> str:
    """How a download stands, a sentence without its end."""
    amount = f"{bytes_text(job.done)} of {bytes_text(job.plan.bytes)}"
    if job.state == "running":
        parts = [amount]
        parts += [f"{bytes_text(job.rate)} a second"] if job.rate else []
        parts += [time_text(job.seconds_left)] if job.seconds_left is not None else []
        return ", ".join(parts)
    if job.state == "failed":
        return job.trouble
    words = {
        "waiting": f"Waits for its turn, {amount}",
        "paused": f"Paused at {amount}",
        "checking": "Comparing it with the hub's hash",
        "done": f"{bytes_text(job.plan.bytes)}, whole and checked",
    }
    return words[job.state]


class QueuePage(QWidget):
    """`changed` is told when a download begins, ends or fails; `use_wanted` carries a source."""

    use_wanted = Signal(str)
    changed = Signal()

    def __init__(self, queue: DownloadQueue, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._queue = queue
        self._background = Background(self)
        self.rows: dict[str, JobRow] = {}
        self.empty = label(EMPTY)
        self.trouble = label(select=True)
        self.trouble.setAccessibleName("Problem")
        self.trouble.hide()
        self.clear_button = QPushButton("Clear Finished")
        self.clear_button.clicked.connect(self._clear)
        inner = QWidget()
        self._column = QVBoxLayout(inner)
        self._column.addWidget(self.empty)
        self._column.addStretch(1)
        area = QScrollArea()
        area.setWidget(inner)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        bottom = QHBoxLayout()
        bottom.addStretch(1)
        bottom.addWidget(self.clear_button)
        column = QVBoxLayout(self)
        column.addWidget(self.trouble)
        column.addWidget(area, 1)
        column.addLayout(bottom)
        self._states: dict[str, str] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(REDRAW_MS)
        self._timer.timeout.connect(self.refresh)
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def add(self, plans: list[Plan]) -> None:
        """Queue these plans."""
        say(self.trouble, "")

        def work() -> None:
            for plan in plans:
                self._queue.add(plan)

        self._background.run(work, lambda _: self.refresh(), self._failed)

    def refresh(self) -> None:
        """Draw the queue as it stands."""
        jobs = self._queue.jobs()
        names = [job.name for job in jobs]
        for name in [n for n in self.rows if n not in names]:
            row = self.rows.pop(name)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        for job in jobs:
            row = self.rows.get(job.name) or self._add_row(job.name)
            row.show_job(job)
        self.empty.setVisible(not jobs)
        self.clear_button.setVisible(any(job.state == "done" for job in jobs))
        states = {job.name: job.state for job in jobs}
        if states != self._states:
            self._states = states
            self.changed.emit()

    def _add_row(self, name: str) -> JobRow:
        row = self.rows[name] = JobRow(name)
        row.asked.connect(self._do)
        row.use_wanted.connect(self.use_wanted)
        self._column.insertWidget(self._column.count() - 1, row)
        return row

    def _do(self, what: str, name: str) -> None:
        """On a thread: giving up removes files, which may be large."""
        work = {"pause": self._queue.pause, "resume": self._queue.resume, "cancel": self._queue.cancel}[what]
        self._background.run(lambda: work(name), lambda _: self.refresh(), self._failed)

    def _clear(self) -> None:
        self._queue.clear_done()
        self.refresh()

    def _failed(self, error: Exception) -> None:
        say(self.trouble, problem_text(error), True)
        self.refresh()
        self.changed.emit()
