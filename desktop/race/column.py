"""One lane of a race: name, clock, rate, a bar of its time, and the text as it comes, drafts tinted as in the chat.

The text is shown as it is, not rendered: whether two texts are one is to be seen. Knows rounds and the theme.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFont, QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QTextEdit, QVBoxLayout, QWidget

from desktop.race.result import Lap
from desktop.sidebar.bars import PartsBar
from desktop.sidebar.stats import rate_text
from desktop.theme import colors_of, drafter_style
from desktop.tokens.timeline import Timeline
from mlx_spec.events import Span


class Column(QWidget):
    """A lap as it was at some second of its own clock."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.timeline = Timeline()
        self._tail: tuple[Span, ...] = ()
        self._shown = 0  # rounds that are in the text
        self._tailed = False
        self._whole = 0.0  # seconds of the slower lap; 0: not known yet
        self._title = QLabel(title)
        bold = QFont(self._title.font())
        bold.setBold(True)
        self._title.setFont(bold)
        self.clock = QLabel("–")
        large = QFont(self.clock.font())
        large.setPointSizeF(large.pointSizeF() * 1.9)
        large.setBold(True)
        self.clock.setFont(large)
        self.clock.setAccessibleName(f"{title}: time")
        self.rate = QLabel("")
        self.rate.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)
        self.rate.setAccessibleName(f"{title}: tokens per second")
        self._bar = PartsBar()
        self._bar.setAccessibleName(f"{title}: time against the slower one")
        self.text = QTextEdit()
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setFrameShape(QFrame.Shape.NoFrame)
        self.text.setAccessibleName(f"{title}: text")
        self.text.setTabChangesFocus(True)
        self.text.document().setDocumentMargin(8)
        option = self.text.document().defaultTextOption()
        option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        self.text.document().setDefaultTextOption(option)

        figures = QHBoxLayout()
        figures.addWidget(self.clock)
        figures.addWidget(self.rate, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self._title)
        column.addLayout(figures)
        column.addWidget(self._bar)
        column.addSpacing(2)
        column.addWidget(self.text, 1)

    # ------------------------------------------------------------------------------------------- content

    def clear(self) -> None:
        """An empty lane."""
        self.timeline, self._tail, self._shown, self._tailed = Timeline(), (), 0, False
        self._whole = 0.0
        self.text.clear()
        self.clock.setText("–")
        self.rate.setText("")
        self._bar.set_parts((), "")

    def say(self, words: str) -> None:
        """A few words in place of the rate while nothing is written."""
        self.rate.setText(words)

    def add(self, lap: Lap) -> None:
        """Take in what of a running lap is new, and show it all."""
        self.timeline.add(lap.rounds[len(self.timeline.rounds) :])
        self.show_at(self.timeline.total)

    def finish(self, lap: Lap, whole: float) -> None:
        """The lap is over; `whole` is the time of the slower one, which the bar is measured by."""
        self.timeline = Timeline(lap.rounds)
        self.timeline.stretch(lap.seconds)
        self._tail = lap.finished.tail if lap.finished is not None else ()
        self._whole = whole
        self.show_at(self.timeline.total)

    def show_at(self, seconds: float) -> None:
        """Show the lap as it was so many seconds after the prompt."""
        line = self.timeline
        rounds = line.at(seconds).rounds
        over = rounds >= len(line.rounds)
        if rounds < self._shown or (self._tailed and not over):
            self.text.clear()
            self._shown, self._tailed = 0, False
        spans = [s for r in line.rounds[self._shown : rounds] for s in r.spans]
        if over and not self._tailed and self._tail:
            spans += self._tail
            self._tailed = True
        self._shown = rounds
        if spans:
            self._write(spans)
        now = min(seconds, line.total)
        count = line.count(rounds)
        self.clock.setText(f"{now:.2f} s")
        known = rate_text(count / now if now > 0 and count else None)
        self.rate.setText(f"{known} · {count:,} token" + ("s" if count != 1 else ""))
        if self._whole > 0:
            self._bar.set_parts((now / self._whole,), f"{now:.2f} of {self._whole:.2f} seconds")

    def _write(self, spans: Sequence[Span]) -> None:
        dark = colors_of(self).dark
        bar = self.text.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 4
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        cursor.setBlockFormat(airy())
        for span in spans:
            cursor.insertText(span.text, look(span.drafter, dark))
        cursor.endEditBlock()
        if at_end:
            bar.setValue(bar.maximum())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "text"):
            rounds = self._shown
            self.text.clear()
            self._write([s for r in self.timeline.rounds[:rounds] for s in r.spans])
            if self._tailed:
                self._write(self._tail)


def airy() -> QTextBlockFormat:
    """Lines far enough apart for what underlines them."""
    form = QTextBlockFormat()
    form.setLineHeight(122.0, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    return form


def look(drafter: str | None, dark: bool) -> QTextCharFormat:
    """How text of a drafter looks; the target's own is plain."""
    form = QTextCharFormat()
    if drafter is not None:
        style = drafter_style(drafter, dark)
        form.setBackground(style.tint)
        form.setUnderlineStyle(style.line)
        form.setUnderlineColor(style.ink)
    return form
