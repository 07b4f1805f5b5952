"""The Race window: one prompt, plain beside drafted; run one after the other, then shown side by side.

Asks the runner and shows what it says; knows no store. What is saved is a picture or a report of the last race.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QFont, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from desktop.race.column import Column
from desktop.race.picture import picture
from desktop.race.report import markdown, summary
from desktop.race.result import Race, parted_words, ratio_line, same_line, terms
from desktop.theme import colors_of
from desktop.tokens.player import Player
from mlx_spec.events import Problem, PromptProgress

SAMPLE = "Write a Python function that reads a CSV file and returns the mean of each column. Then write tests for it."
LONGEST = 200  # tokens
SEEDS = 2**31 - 1
SIZE = QSize(940, 720)
Saving = Callable[[Path, Race], None]


class RaceWindow(QDialog):
    """Prompt, two lanes, verdict, replay. `start_requested` has the prompt, the longest text and the seed."""

    start_requested = Signal(str, int, int)
    stop_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Race: Plain Against Drafted")
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint, True)
        self.race: Race | None = None
        self._running = False
        self._bad = False  # what is said is a failure
        self.prompt = QPlainTextEdit(SAMPLE)
        self.prompt.setAccessibleName("Prompt of the race")
        self.prompt.setTabChangesFocus(True)
        self.prompt.setFixedHeight(self.prompt.fontMetrics().lineSpacing() * 3 + 14)
        self.longest = QSpinBox()
        self.longest.setRange(8, 4096)
        self.longest.setSingleStep(50)
        self.longest.setValue(LONGEST)
        self.longest.setSuffix(" tokens")
        self.seed = QSpinBox()
        self.seed.setRange(0, SEEDS)
        self.seed.setValue(random.randrange(1, 10_000))
        self.seed.setToolTip("Both lanes draw with the same seed, so both write the same text")
        self.go = QPushButton("Start")
        self.go.setDefault(True)
        self.go.setToolTip("Plain first, then drafted: run at once, they would slow each other")
        self.go.clicked.connect(self._go)
        self.status = QLabel()
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setMinimumWidth(1)
        self.lanes = (Column("Plain"), Column("With drafts"))
        self.ratio = QLabel()
        font = QFont(self.ratio.font())
        font.setPointSizeF(font.pointSizeF() * 1.7)
        font.setBold(True)
        self.ratio.setFont(font)
        self.ratio.setAccessibleName("Speed ratio")
        self.same = QLabel()
        font = QFont(self.same.font())
        font.setPointSizeF(font.pointSizeF() * 1.2)
        self.same.setFont(font)
        self.same.setWordWrap(True)
        self.same.setAccessibleName("Whether the texts are the same")
        self.terms = QLabel()
        self.terms.setWordWrap(True)
        for label in (self.ratio, self.same, self.terms):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.player = Player(steps=False)
        self.player.moved.connect(self._show)
        self.save_picture = self._button("Save Picture…", "Both texts, clocks and the verdict as a PNG", self._picture)
        self.save_report = self._button("Save Report…", "The figures and the text as Markdown", self._report)
        self._lay_out()
        QShortcut(QKeySequence("Ctrl+Return"), self, activated=self._go)  # type: ignore[call-overload]
        self._show_verdict()
        self._recolor()
        self.resize(SIZE)  # unasked, Qt makes it two thirds of the screen at most

    def _button(self, text: str, tip: str, act: Callable[[], object]) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(tip)
        button.setAutoDefault(False)
        button.clicked.connect(lambda _=False: act())
        return button

    def _lay_out(self) -> None:
        longest, seed = QLabel("Up to"), QLabel("Seed")
        longest.setBuddy(self.longest)
        seed.setBuddy(self.seed)
        controls = QHBoxLayout()
        for widget in (longest, self.longest, seed, self.seed):
            controls.addWidget(widget)
        controls.addWidget(self.status, 1)
        controls.addWidget(self.go)
        lanes = QHBoxLayout()
        lanes.setSpacing(18)
        for lane in self.lanes:
            lanes.addWidget(lane, 1)
        foot = QHBoxLayout()
        foot.addWidget(self.player, 1)
        foot.addSpacing(10)
        foot.addWidget(self.save_picture)
        foot.addWidget(self.save_report)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(8)
        column.addWidget(self.prompt)
        column.addLayout(controls)
        column.addSpacing(6)
        column.addLayout(lanes, 1)
        column.addWidget(self.ratio)
        column.addWidget(self.same)
        column.addWidget(self.terms)
        column.addLayout(foot)

    def sizeHint(self) -> QSize:
        return SIZE

    # ------------------------------------------------------------------------------------------- running

    def _go(self) -> None:
        if self._running:
            self.go.setEnabled(False)
            self.status.setText("Stopping after this pass")
            self.stop_requested.emit()
        elif self.prompt.toPlainText().strip():
            self.start_requested.emit(self.prompt.toPlainText(), self.longest.value(), self.seed.value())

    def started(self) -> None:
        """A race begins."""
        self.player.pause()
        self.race = None
        self._set_running(True)
        for lane in self.lanes:
            lane.clear()
        self.status.setText("Reading the prompt, for neither's account")
        self._show_verdict()

    def reading(self, progress: PromptProgress) -> None:
        """How far the prompt is read."""
        self.status.setText(f"Reading the prompt: {progress.done:,} of {progress.total:,} tokens")

    def lap_begun(self, lap: int) -> None:
        """A lap begins, 0 plain and 1 drafted."""
        self.status.setText(("Plain is running", "With drafts is running")[lap])
        self.lanes[lap].say("running")
        if lap == 0:
            self.lanes[1].say("runs next")

    def show_race(self, race: Race) -> None:
        """Both laps are over: the verdict, then both side by side, each by its own clock."""
        self.race = race
        self._set_running(False)
        self.status.setText("")
        laps = (race.plain, race.drafted)
        slower = max(lap.seconds for lap in laps)
        for lane, lap in zip(self.lanes, laps, strict=True):
            lane.finish(lap, slower)
        self.player.set_total(slower)
        self.player.seek(slower)
        self._show_verdict()

    def failed(self, words: str) -> None:
        """It came to nothing; what was written stays in sight."""
        self._set_running(False)
        self.status.setText("" if words else "Stopped")
        if words:
            self.same.setText(words)
            self._bad = True
            self._recolor()

    def refused(self, problem: Problem) -> None:
        """It could not even begin."""
        self.failed(f"{problem.message} {problem.remedy}".strip())

    def _set_running(self, running: bool) -> None:
        self._running = running
        self.go.setText("Stop" if running else "Start")
        self.go.setEnabled(True)
        self.prompt.setReadOnly(running)  # still to be read
        for widget in (self.longest, self.seed):
            widget.setEnabled(not running)

    # ------------------------------------------------------------------------------------------- showing

    def _show(self, seconds: float) -> None:
        for lane in self.lanes:
            lane.show_at(seconds)

    def _show_verdict(self) -> None:
        race, self._bad = self.race, False
        self.ratio.setText(ratio_line(race) if race is not None else "Same prompt, same seed, two ways")
        if race is None:
            self.same.setText("Plain: one token a pass. With drafts: drafters guess ahead, the model checks.")
            self.terms.setText("They run one after the other, since one machine cannot run both without slowing both.")
        else:
            self.same.setText(same_line(race) if race.same else f"{same_line(race)}. {parted_words()}")
            self.terms.setText(terms(race))
            self.setAccessibleDescription(summary(race))
        self._recolor()
        for button in (self.save_picture, self.save_report):
            button.setEnabled(race is not None)
        if race is None:
            self.player.set_total(0.0)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "terms"):
            self._recolor()

    def _recolor(self) -> None:
        colors = colors_of(self)
        parted = self._bad or (self.race is not None and not self.race.same)
        for label, ink in (
            (self.terms, colors.muted),
            (self.status, colors.muted),
            (self.same, colors.danger if parted else colors.text),
        ):
            palette = label.palette()
            if palette.color(label.foregroundRole()) != ink:
                palette.setColor(label.foregroundRole(), ink)
                label.setPalette(palette)

    # -------------------------------------------------------------------------------------------- saving

    def _picture(self) -> None:
        self._save("Save Picture", "race.png", "PNG (*.png)", self.write_picture)

    def _report(self) -> None:
        self._save("Save Report", "race.md", "Markdown (*.md)", write_report)

    def write_picture(self, path: Path, race: Race) -> None:
        """Write the picture of a race in the window's own colours. Raises `OSError`."""
        if not picture(race, self.palette(), self.font()).save(str(path)):
            raise OSError(f"{path} could not be written")

    def _save(self, title: str, name: str, kinds: str, write: Saving) -> None:
        if self.race is None:
            return
        chosen, _ = QFileDialog.getSaveFileName(self, title, str(Path.home() / name), kinds)
        if not chosen:
            return
        try:
            write(Path(chosen), self.race)
        except OSError as error:
            self.status.setText(f"{chosen} could not be written: {error.strerror or error}. Choose another place.")
        else:
            self.status.setText(f"Saved as {chosen}")
        self.status.setToolTip(self.status.text())

    def hideEvent(self, event: object) -> None:
        self.player.pause()
        if self._running:
            self.stop_requested.emit()
        super().hideEvent(event)  # type: ignore[arg-type]


def write_report(path: Path, race: Race) -> None:
    """Write the report of a race. Raises `OSError`."""
    path.write_text(markdown(race), encoding="utf-8")
