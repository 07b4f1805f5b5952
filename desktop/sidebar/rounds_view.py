"""The rounds as they happen: a row a pass of the target, a cell a token, the newest at the end.

A filled cell is a draft that held, in its drafter's colour and with its drafter's sign; a hollow struck cell is a
draft that did not; the grey round one is the token that the target wrote itself. Keeps the last 200 rounds.
Painted in one go, only the rows in sight. Knows rounds and the theme, not where either comes from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from desktop.sidebar.signs import paint_accepted
from desktop.sidebar.stats import seconds_text
from desktop.theme import drafter_title, is_dark
from mlx_spec.events import Round

KEPT = 200
REFRESH_MS = 100
CELL, GAP, ROW = 11.0, 2.0, 15


def describe(r: Round) -> str:
    """What happened in a round, for the tooltip and for a screen reader: texts, counts, times, and why."""
    lines = [f"Pass {r.index + 1}, from token {r.position} of the conversation"]
    if r.drafter is None or not r.drafted:
        lines.append("Plain: nothing was drafted")
    else:
        held = f"{drafter_title(r.drafter)} drafted {len(r.drafted)}, {r.accepted} held"
        lines.append(held)
        if r.accepted:
            lines.append("Held: " + _quoted(r.drafted_text[: r.accepted]))
        if r.accepted < len(r.drafted):
            lines.append("Rejected: " + _quoted(r.drafted_text[r.accepted :]))
    own = [s.text for s in r.spans if s.drafter is None]
    if own:
        lines.append("The model's own: " + _quoted(own))
    times = f"{seconds_text(r.total_s)} in all: draft {seconds_text(r.draft_s)}, check {seconds_text(r.verify_s)}"
    lines.append(times)
    if r.plain_s is not None:
        lines.append(f"A plain pass takes {seconds_text(r.plain_s)}")
    if r.why:
        lines.append(r.why)
    return "\n".join(lines)


def _quoted(texts: Iterable[str]) -> str:
    return " ".join("“" + t.replace("\n", "⏎").replace("\t", "⇥") + "”" for t in texts)


class RoundsView(QAbstractScrollArea):
    """A scrolling list of the last rounds. Follows the end only while the person is at the end."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rounds: deque[Round] = deque(maxlen=KEPT)
        self._pending = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(REFRESH_MS)
        self._timer.timeout.connect(self._refresh)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.setMinimumHeight(ROW * 4)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Rounds")
        self.verticalScrollBar().setSingleStep(ROW)

    def sizeHint(self) -> QSize:
        return QSize(280, ROW * 10)

    def rounds(self) -> list[Round]:
        """The rounds that are kept, oldest first."""
        return list(self._rounds)

    def clear(self) -> None:
        """Forget all rounds."""
        self._rounds.clear()
        self._refresh()

    def add_rounds(self, rounds: Iterable[Round]) -> None:
        """Append rounds in order; painted within a tenth of a second."""
        self._rounds.extend(rounds)
        if not self._timer.isActive():
            self._timer.start()

    def _refresh(self) -> None:
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - ROW
        self._set_range()
        if at_end:
            bar.setValue(bar.maximum())
        if self._rounds:
            self.setAccessibleDescription("Newest: " + describe(self._rounds[-1]).replace("\n", ". "))
        else:
            self.setAccessibleDescription("No rounds yet.")
        self.viewport().update()

    def _set_range(self) -> None:
        page = self.viewport().height()
        self.verticalScrollBar().setPageStep(page)
        self.verticalScrollBar().setRange(0, max(0, len(self._rounds) * ROW - page))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - ROW
        self._set_range()
        if at_end:
            bar.setValue(bar.maximum())

    def round_at(self, point: QPoint) -> Round | None:
        """The round whose row is at `point` of the viewport, or None."""
        row = (point.y() + self.verticalScrollBar().value()) // ROW
        return self._rounds[row] if 0 <= row < len(self._rounds) else None

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            r = self.round_at(event.pos())
            if r is None:
                QToolTip.hideText()
            else:
                QToolTip.showText(event.globalPos(), describe(r), self)
            return True
        return super().viewportEvent(event)

    # ------------------------------------------------------------------------------------------- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        text = self.palette().windowText().color()
        quiet = QColor(text)
        quiet.setAlphaF(0.66)
        font = self.font()
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.8))
        painter.setFont(font)
        width = self.viewport().width()
        if not self._rounds:
            painter.setPen(quiet)
            hint = "one row a pass: ■ held, struck: rejected, ● own token"
            flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap
            painter.drawText(QRectF(0, 0, width, self.viewport().height()), flags, hint)
            painter.end()
            return
        times = QFontMetricsF(font).horizontalAdvance("8888 ms") + 4
        offset = self.verticalScrollBar().value()
        first = offset // ROW
        last = min(len(self._rounds) - 1, (offset + self.viewport().height()) // ROW)
        dark = is_dark(self.palette())
        for row in range(first, last + 1):
            r = self._rounds[row]
            top = row * ROW - offset
            self._paint_cells(painter, r, top, width - times, text, dark)
            painter.setPen(quiet)
            box = QRectF(width - times, top, times, ROW)
            flag = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, flag, seconds_text(r.total_s))
        painter.end()

    def _paint_cells(self, painter: QPainter, r: Round, top: float, room: float, text: QColor, dark: bool) -> None:
        own = len(r.tokens) > r.accepted
        count = len(r.drafted) + (1 if own else 0)
        step = min(CELL + GAP, (room - 2) / max(1, count))
        size = max(2.0, step - GAP)
        y = top + (ROW - CELL) / 2
        x = 0.0
        # In the order of the text: what held, the target's own token, and after it the drafts that fell.
        for _ in range(r.accepted):
            paint_accepted(painter, QRectF(x, y, size, CELL), r.drafter or "", dark)
            x += step
        if own:
            neutral = QColor(text)
            neutral.setAlphaF(0.55)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(neutral)
            painter.drawEllipse(QRectF(x, y, size, CELL).adjusted(0.5, 0.5, -0.5, -0.5))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            x += step
        hollow = QColor(text)
        hollow.setAlphaF(0.62)
        pen = QPen(hollow, 1)
        pen.setCosmetic(True)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for _ in range(len(r.drafted) - r.accepted):
            cell = QRectF(round(x) + 0.5, y + 0.5, max(1.0, size - 1), CELL - 1)
            painter.drawRect(cell)
            middle = cell.center().y()
            painter.drawLine(QPointF(cell.left() - 1, middle), QPointF(cell.right() + 1, middle))
            x += step
