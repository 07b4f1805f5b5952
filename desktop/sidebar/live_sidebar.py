"""The sidebar: what the drafters gain at this moment, in large type first, then chart, table, rounds, memory.

Fed with events by the window; asks nothing of anyone. Text is renewed at most eight times a second, however
fast the rounds come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from desktop.engine_keeper import EngineState
from desktop.sidebar.bars import PartsBar
from desktop.sidebar.chart import REFRESH_MS, RateChart
from desktop.sidebar.drafter_table import DrafterTable, shrink
from desktop.sidebar.rounds_view import RoundsView
from desktop.sidebar.stats import Stats, bytes_text, rate_text, ratio_text, ratio_words
from desktop.theme import drafter_title
from mlx_spec.events import DrafterSettings, Finished, Memory, ModelInfo, Round

RESTING = 3  # rounds in a row before it is said that drafting rests
BUSY = (EngineState.LOADING, EngineState.PREFILLING)


class LiveSidebar(QWidget):
    """Ratio, rates, drafters, rounds and memory of what the engine does now."""

    restart_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.stats = Stats()
        self._info: ModelInfo | None = None
        self._drafters: DrafterSettings | None = None
        self._rests_since = ""  # the time of day since which drafting has been off by itself
        self._state = EngineState.NO_MODEL
        self._memory: Memory | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(REFRESH_MS)
        self._timer.timeout.connect(self.refresh)
        self.setMinimumWidth(276)
        self._build()
        self.set_state(EngineState.NO_MODEL, "No model is loaded", -1.0)
        self.refresh()

    def _build(self) -> None:
        self._state_text = _text("", wrap=True)
        self._state_text.setAccessibleName("Engine state")
        self._restart = QPushButton("Restart Engine")
        self._restart.clicked.connect(self.restart_requested)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setFixedHeight(6)
        self._progress.setAccessibleName("Progress")

        self._ratio = _text("measuring…")
        font = self._ratio.font()
        font.setPointSizeF(font.pointSizeF() * 2.1)
        font.setBold(True)
        self._ratio.setFont(font)
        self._ratio.setAccessibleName("Speed against plain decoding")
        self._ratio.setToolTip(
            "How many times as fast as plain decoding the text is written.\n"
            "The plain rate is measured: now and then a pass is run without drafts."
        )
        self._words = _text("", wrap=True)
        self._rate = _text("–")
        font = self._rate.font()
        font.setPointSizeF(font.pointSizeF() * 1.2)
        self._rate.setFont(font)
        self._rate.setAccessibleName("Tokens per second")
        self._rate.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)

        head = QHBoxLayout()
        head.addWidget(self._ratio, 1)
        head.addWidget(self._rate)
        state = QHBoxLayout()
        state.addWidget(self._state_text, 1)
        state.addWidget(self._restart)

        self.chart = RateChart(self.stats)
        self.table = DrafterTable()
        self._budget_bar = PartsBar()
        self._budget_bar.setAccessibleName("Time of a pass")
        self._budget_text = _text("", small=True)
        self.rounds_view = RoundsView()
        self._memory_bar = PartsBar()
        self._memory_bar.setAccessibleName("Memory")
        self._memory_text = _text("", small=True)
        self._model_text = _text("", small=True, wrap=True)
        self._model_text.setAccessibleName("Models")
        # A long name without spaces must not widen the sidebar.
        self._model_text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self._model_text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)

        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.setSpacing(4)
        column.addLayout(state)
        column.addWidget(self._progress)
        column.addWidget(_rule())
        column.addLayout(head)
        column.addWidget(self._words)
        column.addSpacing(4)
        column.addWidget(self.chart, 2)
        column.addSpacing(4)
        column.addWidget(self.table)
        column.addSpacing(4)
        column.addWidget(self._budget_text)
        column.addWidget(self._budget_bar)
        column.addWidget(_rule())
        column.addWidget(self.rounds_view, 3)
        column.addWidget(_rule())
        column.addWidget(self._memory_text)
        column.addWidget(self._memory_bar)
        column.addWidget(self._model_text)

    # -------------------------------------------------------------------------------------------- events

    def set_model(self, info: ModelInfo) -> None:
        """A model was loaded: its name, its drafters; the figures of another model are dropped."""
        if self._info is not None and self._info != info:
            self.stats.forget()
            self.rounds_view.clear()
        self._info = info
        self._show_drafters()
        lines = [model_title(info.model), f"{_count(info.parameters)} · {info.bits:.3g} bits a weight"]
        lines.append(f"Draft: {model_title(info.draft)}" if info.draft else "No draft model")
        self._model_text.setText("\n".join(lines))
        self._model_text.setToolTip(
            f"{info.model}\n{info.architecture}, context {info.context:,} tokens, "
            f"{bytes_text(info.weight_bytes)} of weights"
        )
        self.refresh()

    def set_drafters(self, drafters: DrafterSettings) -> None:
        """The drafters now in effect. What changed is marked in the chart once something was written."""
        before = self._drafters
        self._drafters = drafters
        self._show_drafters()
        if before is not None and self.stats.clock > 0:
            for text in changes(before, drafters):
                self.stats.mark(text)
            self.chart.poke()
        self._soon()

    def _show_drafters(self) -> None:
        on = self._drafters.names if self._drafters else ()
        known = self._info.drafters if self._info else on
        self.table.set_drafters(known, on)
        self.table.set_figures(self.stats.by_drafter, self.stats.overall)

    def reply_started(self) -> None:
        """A reply begins: its figures start at zero, the chart goes on."""
        self.stats.start_reply()
        self.rounds_view.clear()
        self._soon()

    def add_rounds(self, rounds: Sequence[Round]) -> None:
        """Rounds of one frame, in order."""
        self.stats.add(rounds)
        self.rounds_view.add_rounds(rounds)
        if rounds and rounds[-1].memory and self._memory is not None:
            active = rounds[-1].memory
            self._memory = Memory(active, max(active, self._memory.peak), self._memory.total)
        self.chart.poke()
        self._soon()

    def reply_finished(self, finished: Finished | None) -> None:
        """The reply is over; None where the engine could not say so any more."""
        self.stats.finish_reply(finished)
        self.chart.poke()
        self._soon()

    def set_memory(self, memory: Memory) -> None:
        """Bytes in use, at the peak, and in the machine."""
        self._memory = memory
        self._soon()

    def set_state(self, state: EngineState, text: str, progress: float) -> None:
        """What the engine does, in words; `progress` 0..1, or -1 where it is not known."""
        self._state = state
        self._state_text.setText(text)
        busy = state in BUSY
        self._progress.setVisible(busy)
        if busy:
            known = progress >= 0
            self._progress.setRange(0, 1000 if known else 0)
            self._progress.setValue(round(min(progress, 1.0) * 1000) if known else 0)
        self._restart.setVisible(state is EngineState.DEAD)
        self._soon()

    # ------------------------------------------------------------------------------------------- showing

    def _soon(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def refresh(self) -> None:
        """Bring all text up to date now."""
        stats = self.stats
        drafting = self._drafters is None or bool(self._drafters.names)
        any_rounds = stats.passes > 0
        self._ratio.setText(ratio_text(stats.ratio) if any_rounds else "–")
        self._rate.setText(rate_text(stats.rate) if any_rounds else "")
        self._words.setText(self._words_now(any_rounds, drafting))
        self.table.set_figures(stats.by_drafter, stats.overall)
        self._budget_bar.setVisible(any_rounds)
        self._budget_text.setVisible(any_rounds)
        if any_rounds:
            draft, verify, rest = stats.budget.shares()
            words = f"Time: ■ draft {draft:.0%}  ▒ check {verify:.0%}  ▨ rest {rest:.0%}"
            self._budget_text.setText(words)
            self._budget_bar.set_parts((draft, verify, rest), words)
        memory = self._memory
        self._memory_bar.setVisible(memory is not None)
        self._memory_text.setVisible(memory is not None)
        if memory is not None:
            words = f"Memory: {bytes_text(memory.active)} in use of {bytes_text(memory.total)}"
            self._memory_text.setText(words)
            self._memory_text.setToolTip(f"At the peak {bytes_text(memory.peak)}")
            self._memory_bar.set_parts((memory.active / memory.total if memory.total else 0.0,), words)

    def _words_now(self, any_rounds: bool, drafting: bool) -> str:
        stats = self.stats
        if not any_rounds:
            return "figures appear with the first words" if drafting else ratio_words(None, False)
        words = ratio_words(stats.ratio, drafting or bool(stats.overall.drafted))
        if stats.resting < RESTING:
            self._rests_since = ""
        elif drafting:
            self._rests_since = self._rests_since or time.strftime("%H:%M")
            words = f"drafting is slower here: plain since {self._rests_since}"
        if stats.finished is None:
            return words
        done = stats.finished
        broken = "".join(f"; {drafter_title(name)} sat out: {why}" for name, why in done.benched.items())
        return f"{words}; {done.tokens} tokens in {done.passes} passes{broken}"


def changes(before: DrafterSettings, after: DrafterSettings) -> list[str]:
    """What differs between two drafter settings, a few words each, for the marks of the chart."""
    texts = [f"{drafter_title(n)} off" for n in before.names if n not in after.names]
    texts += [f"{drafter_title(n)} on" for n in after.names if n not in before.names]
    if before.rule != after.rule:
        texts.append(f"rule: {after.rule}")
    if before.max_draft != after.max_draft:
        texts.append(f"up to {after.max_draft}")
    return texts


def model_title(source: str) -> str:
    """A model's name for a person: the last part of a path, anything else as it is."""
    return PurePath(source).name if source.startswith(("/", "~", ".")) else source


def _count(parameters: int) -> str:
    if parameters >= 1e9:
        return f"{parameters / 1e9:.2g} billion parameters"
    if parameters >= 1e6:
        return f"{parameters / 1e6:.0f} million parameters"
    return f"{parameters:,} parameters"


def _text(text: str, small: bool = False, wrap: bool = False) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wrap)
    if small:
        shrink(label)
    return label


def _rule() -> QFrame:
    line = QFrame()
    line.setFrameShape(QFrame.Shape.HLine)
    line.setFrameShadow(QFrame.Shadow.Plain)
    line.setForegroundRole(line.backgroundRole())
    line.setFixedHeight(5)
    return line
