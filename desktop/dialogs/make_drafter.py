"""The dialog that makes a drafter: what that means, how long it may take, how far it is, what came of it.

Asks and shows; `desktop.drafter_maker` does what is asked. Closing it stops nothing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QGridLayout,
    QLabel,
    QProgressBar,
    QSizePolicy,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from desktop.dialogs.background import Background, problem_text
from desktop.dialogs.model_facts import find
from desktop.sidebar.drafter_table import shrink
from desktop.sidebar.live_sidebar import model_title
from desktop.sidebar.stats import bytes_text
from desktop.theme import colors_of, drafter_title
from desktop.training import Made, Step
from models.memory import available, need
from models.paths import heads, home

ABOUT = (
    "A drafter is a small head that guesses the model's next words, so that the same text comes sooner. It is made on "
    "this machine: for a third of the time the model answers questions of its own and of a list, for the rest the head "
    "learns to guess those answers. Your chats are not used, and the model stays as it is."
)
HINT = "More time, better guesses. It can be stopped, and goes on later. You can chat meanwhile; both take longer then."
KINDS = (
    ("eagle3", "EAGLE-3: guesses better, word after word"),
    ("medusa", "Medusa: all words at once, costs less"),
)
MINUTES = 60
TOKENS = 384 * 64  # of context, that answers are written with
MOST_DISK_GB = 8.0
WORDS = {
    "download": "Downloading",
    "import": "Importing",
    "read": "Loading the model",
    "check": "Checking",
    "answers": "The model writes answers",
    "learn": "The head learns from them",
    "measure": "Measuring on answers that it has not seen",
    "waiting": "Waiting",
}
# Where a stage begins in the whole, and how much of it it is.
PLACES = {"answers": (0.0, 1 / 3), "learn": (1 / 3, 2 / 3)}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a training needs, a sentence a line; `begun` says that an earlier run is there to go on with."""

    lines: tuple[str, ...]
    fits: bool
    disk_gb: float
    begun: bool


def facts(model: str) -> Facts:
    """What is known before a training of `model`. Raises `Problem` where that is no model."""
    folder, waiting = find(model)
    there, free = available(), shutil.disk_usage(_existing(home())).free
    disk = min(MOST_DISK_GB, free / 2e9)
    lines = [f"On the disk: up to {disk:.1f} GB while it learns; {bytes_text(free)} are free."]
    fits = disk >= 0.5
    if folder is None:
        return Facts((waiting, *lines), fits, disk, False)
    asked = need(folder, None, TOKENS)
    text = f"Memory: about {bytes_text(asked.total)}, for the model is loaded a second time"
    if sys.platform == "darwin":  # all that may be used is counted there, on other systems what is free
        fits = fits and asked.total + asked.weights <= there
        lines.insert(0, f"{text}; models can use {bytes_text(there)} in all.")
    else:
        fits = fits and asked.total <= there
        lines.insert(0, f"{text}; {bytes_text(there)} are free.")
    if not fits:
        lines.append("That may be too little: choose a smaller model, or make room.")
    return Facts(tuple(lines), fits, disk, (heads()[0] / folder.name / "run").is_dir())


def _existing(path: Path) -> Path:
    """The folder itself, or the one above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def overall(step: Step) -> float | None:
    """How far the whole is at a step, 0 to 1; None where that is not known."""
    if step.stage in PLACES and step.share is not None:
        begin, part = PLACES[step.stage]
        return begin + part * min(max(step.share, 0.0), 1.0)
    return 1.0 if step.stage == "measure" and step.share == 1.0 else None


def words(step: Step) -> str:
    """What is being done, for a person."""
    text = WORDS.get(step.stage, step.stage.capitalize())
    if step.stage == "waiting":
        return "Waiting for mains: the machine is on its battery."
    if step.note and step.stage in PLACES:
        text += f": {step.note}"
    if step.minutes_left is not None and step.stage in PLACES:
        left = round(step.minutes_left)
        text += f". About {left} minute{'' if left == 1 else 's'} left" if left >= 1 else ". Less than a minute left"
    return text + "."


class MakeDrafterDialog(QDialog):
    """Start, watch and stop the making of a drafter. `start_requested` carries kind, minutes, room on the disk in GB
    and whether an earlier run is to be forgotten."""

    start_requested = Signal(str, int, float, bool)
    stop_requested = Signal()

    def __init__(self, parent: QWidget | None = None, ask: Callable[[str], Facts] | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Make a Drafter")
        self._ask = ask or facts
        self._background = Background(self)
        self._model = ""
        self._disk = MOST_DISK_GB
        self._running = False
        self.about = _label(ABOUT)
        self.model_name = _label("", wrap=False)
        self.kind = QComboBox()
        self.kind.setAccessibleName("Kind")
        for name, title in KINDS:
            self.kind.addItem(title, name)
        self.minutes = QSpinBox()
        self.minutes.setRange(5, 7 * 24 * 60)
        self.minutes.setSingleStep(10)
        self.minutes.setValue(MINUTES)
        self.minutes.setSuffix(" minutes")
        self.minutes.setAccessibleName("Time")
        self.again = QCheckBox("Begin anew, and forget the earlier run")
        self.needs = _label("", small=True)
        self.needs.setAccessibleName("What it needs")
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress")
        self.status = _label("")
        self.status.setAccessibleName("State")
        self.table = QWidget()
        self._grid = QGridLayout(self.table)
        self._grid.setContentsMargins(0, 4, 0, 0)
        self._grid.setHorizontalSpacing(18)
        self._grid.setColumnStretch(3, 1)
        self._build()
        self._show_running(False)
        self.bar.hide()
        self.table.hide()

    def _build(self) -> None:
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        form.addRow("Model", self.model_name)
        form.addRow("Kind", self.kind)
        form.addRow("Time", self.minutes)
        form.addRow("", _label(HINT, small=True))
        form.addRow("", self.again)
        buttons = QDialogButtonBox()
        self.start_button = buttons.addButton("Start", QDialogButtonBox.ButtonRole.ActionRole)
        self.start_button.setDefault(True)
        self.stop_button = buttons.addButton("Stop", QDialogButtonBox.ButtonRole.ActionRole)
        self.stop_button.setToolTip("What it has learned is kept and used; the next start goes on from there")
        self.close_button = buttons.addButton(QDialogButtonBox.StandardButton.Close)
        self.start_button.clicked.connect(self._start)
        self.stop_button.clicked.connect(self._stop)
        buttons.rejected.connect(self.hide)
        column = QVBoxLayout(self)
        column.setSpacing(10)
        column.addWidget(self.about)
        column.addLayout(form)
        column.addWidget(self.needs)
        column.addWidget(self.bar)
        column.addWidget(self.status)
        column.addWidget(self.table)
        column.addStretch(1)
        column.addWidget(buttons)
        self.setMinimumWidth(520)

    # --------------------------------------------------------------------------------------------- asking

    def set_model(self, model: str) -> None:
        """Which model it is about; "" where none is loaded. Says what the making needs."""
        if self._running:
            return
        if model != self._model:
            self.table.hide()
            self._say("")
        self._model = model
        self.model_name.setText(model_title(model) if model else "No model is loaded")
        self.model_name.setToolTip(model)
        self.again.hide()
        self.again.setChecked(False)
        self.needs.setText("")
        self._show_running(False)
        if not model:
            self._say("Choose a model first.")
            return
        self._background.run(lambda: self._ask(model), self._show_facts, lambda e: self._say(problem_text(e), True))

    def _show_facts(self, found: Facts) -> None:
        self._disk = found.disk_gb
        self.needs.setText("\n".join(found.lines))
        self._tint(self.needs, not found.fits)
        self.again.setVisible(found.begun)
        if found.begun and not self._running and not self.status.text():
            self._say("An earlier run is there: it goes on.")

    def _start(self) -> None:
        self.start_requested.emit(self.kind.currentData(), self.minutes.value(), self._disk, self.again.isChecked())

    def _stop(self) -> None:
        self.stop_button.setEnabled(False)
        self._say("Stopping after this step; what was learned is kept.")
        self.stop_requested.emit()

    # -------------------------------------------------------------------------------------------- showing

    def started(self) -> None:
        """It runs."""
        self._show_running(True)
        self.table.hide()
        self.bar.setRange(0, 0)
        self.bar.show()
        self._say("Starting.")

    def step(self, step: Step) -> None:
        """Show how far it is."""
        share = overall(step)
        if share is not None:
            self.bar.setRange(0, 1000)
            self.bar.setValue(round(1000 * share))
        elif step.stage != "waiting":  # a bar that stands still says that better
            self.bar.setRange(0, 0)
        if self.stop_button.isEnabled():
            self._say(words(step))

    def made(self, made: Made) -> None:
        """Show what came of it."""
        self._end()
        began = f"Stopped after {_minutes(made.minutes)}" if made.stopped else f"Done in {_minutes(made.minutes)}"
        self._say(
            f"{began}: the drafter ({bytes_text(made.bytes)}) is kept. A pass of the model gives about "
            f"{made.tokens_a_pass:.1f} tokens with it, on answers that it has not seen; without drafts it gives 1."
        )
        self._fill(made)
        self.again.show()

    def say(self, text: str) -> None:
        """Add a sentence to what came of it."""
        self._say(f"{self.status.text()} {text}".strip())

    def stopped(self) -> None:
        """It was stopped before there was anything to learn from."""
        self._end()
        self._say("Stopped before anything was learned. The answers are kept: the next start goes on from there.")

    def failed(self, text: str) -> None:
        """It ended by itself, for this reason."""
        self._end()
        self._say(text, True)

    def _end(self) -> None:
        self._show_running(False)
        self.bar.hide()

    def _fill(self, made: Made) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        heads_ = ("Guesses that hold", "Before", "Now")
        for column, head in enumerate(heads_):
            self._grid.addWidget(_label(head, small=True, wrap=False, right=column > 0), 0, column)
        for row, (before, after) in enumerate(zip(made.before, made.after, strict=True), 1):
            what = "The next word piece" if row == 1 else f"The next {row}, all of them"
            for column, text in enumerate((what, f"{before:.0%}", f"{after:.0%}")):
                self._grid.addWidget(_label(text, wrap=False, right=column > 0), row, column)
        self.table.setAccessibleName(f"What {drafter_title(made.kind)} guesses right, before and after")
        self.table.show()
        self.adjustSize()

    def _show_running(self, running: bool) -> None:
        self._running = running
        self.start_button.setEnabled(not running and bool(self._model))
        self.stop_button.setEnabled(running)
        for widget in (self.kind, self.minutes, self.again):
            widget.setEnabled(not running)
        self.close_button.setToolTip("The making goes on" if running else "")

    def _say(self, text: str, wrong: bool = False) -> None:
        self.status.setText(text)
        self._tint(self.status, wrong)

    def _tint(self, label: QLabel, wrong: bool) -> None:
        palette = self.palette()
        if wrong:
            palette.setColor(palette.ColorRole.WindowText, colors_of(self).danger)
        label.setPalette(palette)


def _minutes(minutes: float) -> str:
    whole = round(minutes)
    return "less than a minute" if whole < 1 else f"{whole} minute{'' if whole == 1 else 's'}"


def _label(text: str, small: bool = False, wrap: bool = True, right: bool = False) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wrap)
    if right:
        label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    if wrap:
        label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
    if small:
        shrink(label)
    return label
