"""Play, pause, step, speed and a slider over a length of time; says which second is to be shown.

Knows seconds only. Time goes by the wall clock, so a slow paint skips ahead and the pace stays real.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QSlider, QWidget

FRAME_MS = 33
STEPS = 10_000
SPEEDS = ((0.25, "¼×"), (0.5, "½×"), (1.0, "1×"), (2.0, "2×"), (4.0, "4×"))


class Player(QWidget):
    """The bar under something that can be replayed. `moved` has the second that is to be shown."""

    moved = Signal(float)

    def __init__(self, parent: QWidget | None = None, steps: bool = True) -> None:
        super().__init__(parent)
        self.total = 0.0
        self.at = 0.0
        # What a step leads to.
        self.step_back: Callable[[float], float] = lambda seconds: seconds
        self.step_on: Callable[[float], float] = lambda seconds: seconds
        self._last = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(FRAME_MS)
        self._timer.timeout.connect(self._tick)
        self.play_button = self._button("Play", "Play at the real pace (Space)", self.toggle)
        self.back_button = self._button("‹ Step", "One pass back (Left)", self.back)
        self.on_button = self._button("Step ›", "One pass on (Right)", self.on)
        self.speed = QComboBox()
        for factor, words in SPEEDS:
            self.speed.addItem(words, factor)
        self.speed.setCurrentIndex([f for f, _ in SPEEDS].index(1.0))
        self.speed.setAccessibleName("Speed of the replay")
        self.speed.setToolTip("How fast it is played, against its real pace")
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, STEPS)
        self.slider.setMinimumWidth(100)
        self.slider.setAccessibleName("Place in the reply")
        self.slider.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.slider.valueChanged.connect(self._slid)
        self.words = QLabel()
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self.words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for button in (self.back_button, self.on_button):
            button.setVisible(steps)
        across = QHBoxLayout(self)
        across.setContentsMargins(0, 0, 0, 0)
        for widget in (self.play_button, self.back_button, self.on_button):
            across.addWidget(widget)
        across.addWidget(self.slider, 1)
        across.addWidget(self.words)
        across.addWidget(self.speed)
        self._show()

    def _button(self, text: str, tip: str, act: Callable[[], None]) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(tip)
        button.setAutoDefault(False)
        button.clicked.connect(lambda _=False: act())
        return button

    @property
    def playing(self) -> bool:
        return self._timer.isActive()

    @property
    def at_end(self) -> bool:
        return self.at >= self.total

    def set_total(self, seconds: float) -> None:
        """How long the whole is; where it is shown at the moment stays."""
        self.total = max(0.0, seconds)
        self.at = min(self.at, self.total)
        self._show()

    def seek(self, seconds: float) -> None:
        """Go to a second and show it."""
        self.at = min(max(0.0, seconds), self.total)
        self._show()
        self.moved.emit(self.at)

    def toggle(self) -> None:
        """Play, from the start if it was at the end; or pause."""
        if self.playing:
            self.pause()
        else:
            self.play()

    def play(self) -> None:
        """Go on from here, or from the start where the end was reached."""
        if self.total <= 0:
            return
        if self.at_end:
            self.seek(0.0)
        self._last = time.monotonic()
        self._timer.start()
        self._show()

    def pause(self) -> None:
        """Stay where it is."""
        self._timer.stop()
        self._show()

    def back(self) -> None:
        """One step back."""
        self.pause()
        self.seek(self.step_back(self.at))

    def on(self) -> None:
        """One step on."""
        self.pause()
        self.seek(self.step_on(self.at))

    def _tick(self) -> None:
        now = time.monotonic()
        passed, self._last = now - self._last, now
        self.seek(self.at + passed * float(self.speed.currentData()))
        if self.at_end:
            self.pause()

    def _slid(self, value: int) -> None:
        if self.playing:
            self._last = time.monotonic()
        self.at = self.total * value / STEPS if value < STEPS else self.total
        self._show()
        self.moved.emit(self.at)

    def _show(self) -> None:
        with QSignalBlocker(self.slider):
            self.slider.setValue(round(STEPS * self.at / self.total) if self.total > 0 else STEPS)
        self.play_button.setText("Pause" if self.playing else "Play")
        # As wide as the longer word, so that nothing moves when it changes.
        wide = max(self.play_button.fontMetrics().horizontalAdvance(w) for w in ("Pause", "Play")) + 28
        self.play_button.setMinimumWidth(wide)
        self.words.setText(f"{self.at:.2f} of {self.total:.2f} s")
        self.words.setFixedWidth(
            self.words.fontMetrics().horizontalAdvance(f"{self.total:.2f} of {self.total:.2f} s ") + 8
        )
        for widget in (self.play_button, self.back_button, self.on_button, self.slider):
            widget.setEnabled(self.total > 0)
