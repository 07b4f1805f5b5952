"""A reply as rows: one a pass of the model, with its tokens, what held, and where its time went.

Shows the reply as it was at some moment: later rounds are not there yet, and the drafts of the one that runs lie open.
Only the rows in sight are painted. Knows rounds and the theme, not where rounds come from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from desktop.sidebar.bars import part_brushes
from desktop.sidebar.stats import seconds_text
from desktop.theme import colors_of, mix
from desktop.tokens.chips import chip_width, paint_chip
from desktop.tokens.pieces import Fate, Token, describe_token, held, times, tokens_of
from desktop.tokens.timeline import Moment
from mlx_spec.events import Round

MARGIN = 10.0
BAR, BAR_HEIGHT = 72.0, 7.0
STILL = Moment(1 << 60)


class RowsView(QAbstractScrollArea):
    """The rounds of one reply. `picked` has the number of rounds up to the row that was clicked, that one included."""

    picked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rounds: list[Round] = []
        self._tokens: list[list[Token]] = []
        self._tops: list[int] = [0]  # where each row begins, and the end of the last
        self._widths: dict[str, float] = {}
        self._longest = 0.0  # seconds of the longest round
        self._moment = STILL
        self._room = 0.0
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Always there: if it came and went, every replay would lay out all rows anew and jump.
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Base)
        self.viewport().setAutoFillBackground(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Rounds of the reply")
        self.setMinimumSize(380, 160)
        self._measure()

    def sizeHint(self) -> QSize:
        return QSize(700, 420)

    # ------------------------------------------------------------------------------------------- content

    def clear(self) -> None:
        """Forget all rounds."""
        self._rounds, self._tokens, self._tops, self._longest = [], [], [0], 0.0
        self._moment = STILL
        self._set_range()

    def add_rounds(self, rounds: Sequence[Round]) -> None:
        """Append rounds in order. The end stays in sight if it was."""
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - self._line
        for r in rounds:
            self._rounds.append(r)
            self._tokens.append(tokens_of(r))
            self._longest = max(self._longest, r.total_s)
            self._tops.append(self._tops[-1] + self._height(self._tokens[-1]))
        self._set_range()
        if at_end and self._moment is STILL:
            bar.setValue(bar.maximum())

    def show_moment(self, moment: Moment) -> None:
        """Show the reply as it was at a moment, with its newest round in sight."""
        if moment == self._moment:
            return
        self._moment = moment
        self._set_range()
        self._keep_in_sight(self._current())
        self._say()
        self.viewport().update()

    def show_all(self) -> None:
        """Show all rounds, and follow those that come."""
        self._moment = STILL
        self._set_range()
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())
        self._say()
        self.viewport().update()

    def _shown(self) -> int:
        """How many rows there are at this moment, the one whose drafts are checked included."""
        return min(self._moment.rounds + self._moment.waiting, len(self._rounds))

    def _current(self) -> int:
        """The row that is marked: the one whose drafts are checked, else the last that is over."""
        return self._shown() - 1

    def _say(self) -> None:
        row = self._current()
        if row < 0:
            self.setAccessibleDescription("Nothing is written yet.")
            return
        r = self._rounds[row]
        words = " ".join(t.text for t in self._tokens[row] if t.fate in (Fate.HELD, Fate.OWN))
        self.setAccessibleDescription(f"Pass {r.index + 1}: {held(r)}. Written: {words}. {times(r)}")

    # ------------------------------------------------------------------------------------------ geometry

    def _measure(self) -> None:
        self._metrics = QFontMetricsF(self.font())
        small = QFont(self.font())
        small.setPointSizeF(max(7.0, small.pointSizeF() * 0.85))
        self._small = small
        self._small_metrics = QFontMetricsF(small)
        self._line = round(self._metrics.height() + 7)
        self._widths.clear()
        self._left = MARGIN + self._small_metrics.horizontalAdvance("88888") + 8
        self._figures = self._small_metrics.horizontalAdvance("64/64 held") + 12
        self._time = self._small_metrics.horizontalAdvance("8888 ms") + 6
        self.verticalScrollBar().setSingleStep(self._line)

    def _lay_out(self) -> None:
        room = self.viewport().width() - self._left - self._figures - BAR - self._time - 2 * MARGIN
        self._room = max(80.0, room)
        self._tops = [0]
        for tokens in self._tokens:
            self._tops.append(self._tops[-1] + self._height(tokens))
        self._set_range()

    def _width(self, token: Token) -> float:
        wide = self._widths.get(token.text)
        if wide is None:
            wide = self._widths[token.text] = chip_width(self._metrics, token)
        return wide

    def _height(self, tokens: Sequence[Token]) -> int:
        x, lines = 0.0, 1
        for token in tokens:
            wide = self._width(token)
            if x and x + wide > self._room:
                x, lines = 0.0, lines + 1
            x += wide + 1
        return lines * self._line + 2

    def _chips(self, row: int) -> Iterator[tuple[QRectF, Token]]:
        """The tokens of a row with their places, the row's top being 0."""
        x, y = 0.0, 1.0
        for token in self._tokens[row]:
            wide = self._width(token)
            if x and x + wide > self._room:
                x, y = 0.0, y + self._line
            yield QRectF(self._left + x, y, min(wide, self._room), self._line), token
            x += wide + 1

    def _set_range(self) -> None:
        page = self.viewport().height()
        self.verticalScrollBar().setPageStep(page)
        end = self._tops[self._shown()]  # what is not there yet at this moment takes no room
        self.verticalScrollBar().setRange(0, max(0, end + round(MARGIN) - page))
        self.viewport().update()

    def _keep_in_sight(self, row: int) -> None:
        bar = self.verticalScrollBar()
        if row < 0:
            bar.setValue(0)
            return
        top, bottom = self._tops[row], self._tops[row + 1]
        page = self.viewport().height()
        if bottom > bar.value() + page:
            bar.setValue(bottom - page + round(MARGIN))
        elif top < bar.value():
            bar.setValue(top)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - self._line
        self._lay_out()
        if at_end:
            bar.setValue(bar.maximum())

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.FontChange:
            self._measure()
            self._lay_out()
        elif event.type() == QEvent.Type.PaletteChange:
            self.viewport().update()
        super().changeEvent(event)

    # ------------------------------------------------------------------------------------------ pointing

    def row_at(self, point: QPoint) -> int | None:
        """The row at a point of the viewport, if it is shown at this moment."""
        y = point.y() + self.verticalScrollBar().value()
        row = bisect_right(self._tops, y) - 1
        return row if 0 <= row < self._shown() else None

    def words_at(self, point: QPoint) -> str:
        """What is known of the token at a point, or of its round; "" where nothing is."""
        row = self.row_at(point)
        if row is None:
            return ""
        inside = QPointF(point.x(), point.y() + self.verticalScrollBar().value() - self._tops[row])
        r = self._rounds[row]
        if not (self._moment.waiting and row == self._moment.rounds):
            for rect, token in self._chips(row):
                if rect.contains(inside):
                    return describe_token(r, token)
        lines = [f"Pass {r.index + 1}: {held(r)}", times(r)]
        return "\n".join([*lines, r.why] if r.why else lines)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.words_at(event.pos())
            if text:
                QToolTip.showText(event.globalPos(), text, self)
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().toPoint())
        if row is not None and event.button() == Qt.MouseButton.LeftButton:
            self.picked.emit(row + 1)
        super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if event.key() in steps and self._rounds:
            row = min(max(0, self._current() + steps[Qt.Key(event.key())]), len(self._rounds) - 1)
            self.picked.emit(row + 1)
            return
        super().keyPressEvent(event)

    # ------------------------------------------------------------------------------------------- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        colors = colors_of(self)
        offset = self.verticalScrollBar().value()
        first = max(0, bisect_right(self._tops, offset + event.rect().top()) - 1)
        over, end = min(self._moment.rounds, len(self._rounds)), self._shown()
        if not self._rounds or end == 0:
            painter.setPen(colors.muted)
            words = "Nothing is written yet." if self._rounds else "No rounds of this reply are known."
            painter.drawText(self.viewport().rect(), Qt.AlignmentFlag.AlignCenter, words)
            painter.end()
            return
        marked = self._current() if self._moment is not STILL else -1
        ground = mix(colors.base, colors.accent, 0.12 if not colors.dark else 0.2)
        brushes = part_brushes(self.palette())
        for row in range(first, end):
            top = self._tops[row] - offset
            if top > event.rect().bottom():
                break
            height = self._tops[row + 1] - self._tops[row]
            if row == marked:
                painter.fillRect(QRectF(0, top, self.viewport().width(), height), ground)
                painter.fillRect(QRectF(0, top, 3, height), colors.accent)
            waiting = row >= over
            painter.setFont(self.font())
            for rect, token in self._chips(row):
                if not waiting or token.fate is not Fate.OWN:
                    paint_chip(painter, rect.translated(0, top), token, colors, self._metrics, waiting)
            painter.setFont(self._small)
            self._paint_figures(painter, row, top, colors.muted, waiting)
            if not waiting:
                self._paint_bar(painter, self._rounds[row], top, brushes, colors.border)
        painter.end()

    def _paint_figures(self, painter: QPainter, row: int, top: float, ink: QColor, waiting: bool) -> None:
        r = self._rounds[row]
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.setPen(ink)
        painter.drawText(QRectF(0, top, self._left - 8, self._line), right, f"{r.index + 1}")
        x = self._left + self._room
        words = f"{r.accepted}/{len(r.drafted)} held" if r.drafted else "plain"
        box = QRectF(x, top, self._figures - 6, self._line)
        painter.drawText(box, right, "checking" if waiting else words)
        if not waiting:
            x += self._figures + BAR
            painter.drawText(QRectF(x, top, self._time + MARGIN, self._line), right, seconds_text(r.total_s))

    def _paint_bar(self, painter: QPainter, r: Round, top: float, brushes: Sequence[QBrush], track: QColor) -> None:
        """Draft, check and rest of the round, as long as it took against the longest one."""
        x = self._left + self._room + self._figures
        y = round(top + (self._line - BAR_HEIGHT) / 2)
        painter.fillRect(QRectF(x, y + BAR_HEIGHT - 1, BAR, 1), track)
        if self._longest <= 0:
            return
        rest = max(0.0, r.total_s - r.draft_s - r.verify_s)
        for part, brush in zip((r.draft_s, r.verify_s, rest), brushes, strict=True):
            wide = min(part / self._longest, 1.0) * BAR
            painter.fillRect(QRectF(x, y, wide, BAR_HEIGHT), brush)
            x += wide
