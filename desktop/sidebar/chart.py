"""The rolling chart: tokens a second as a filled line, the plain rate dashed, switches as labelled marks.

Painted by hand with one-pixel cosmetic pens, which Qt's raster engine draws ten times faster than wide smooth
ones, and at most eight times a second. All colours come from the palette. Knows `Stats` and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from desktop.sidebar.stats import SPAN_S, Sample, Stats, rate_text

REFRESH_MS = 125
Axis = Callable[[float], float]  # from a value to a pixel
SMALL_SPAN_S = 10.0  # the axis starts at ten seconds and grows to a minute


def nice_top(value: float) -> float:
    """The smallest of 1, 2, 4, 5, 10 times a power of ten that is at least `value`: the top of the axis."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1, 2, 4, 5, 10):
        if value <= step * power * 1.000001:
            return step * power
    return 10 * power


def split_replies(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Cut the samples where a new reply begins: no line is drawn from one reply to the next."""
    parts: list[list[Sample]] = []
    for sample in samples:
        if sample.first or not parts:
            parts.append([])
        parts[-1].append(sample)
    return parts


class RateChart(QWidget):
    """Tokens a second over the last minute of writing, against what plain decoding would give."""

    def __init__(self, stats: Stats, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stats = stats
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(REFRESH_MS)
        self._timer.timeout.connect(self._refresh)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setMinimumSize(180, 112)
        self.setAccessibleName("Tokens per second")
        self._refresh()

    def sizeHint(self) -> QSize:
        return QSize(280, 150)

    def poke(self) -> None:
        """The figures changed: repaint soon, but not more often than the refresh rate."""
        if not self._timer.isActive():
            self._timer.start()

    def _refresh(self) -> None:
        stats = self._stats
        if stats.samples:
            text = f"Now {rate_text(stats.rate)}; plain decoding {rate_text(stats.plain_rate)}."
            self.setToolTip(
                f"Filled: {rate_text(stats.rate)}, as written now.\n"
                f"Dashed: {rate_text(stats.plain_rate)}, what plain decoding would give, measured now and then.\n"
                "The axis counts seconds of writing; pauses between replies are left out."
            )
        else:
            text = "Nothing has been written yet."
            self.setToolTip("")
        self.setAccessibleDescription(text)
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self.update()
        super().changeEvent(event)

    # ------------------------------------------------------------------------------------------- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        font = self.font()
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.82))
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        stats = self._stats
        samples = list(stats.samples)
        top = nice_top(max([s.rate for s in samples] + [s.plain or 0.0 for s in samples] + [0.0]) * 1.05)
        labels = [_axis_number(top * i / 2) for i in range(3)]
        left = max(metrics.horizontalAdvance(label) for label in labels) + 8
        line = metrics.height()
        area = QRectF(left, line * 2 + 4, self.width() - left - 2, self.height() - 3 * line - 9)
        if area.height() < 20 or area.width() < 40:
            painter.end()
            return
        if not samples:
            span = SMALL_SPAN_S
        else:
            span = min(SPAN_S, max(SMALL_SPAN_S, stats.clock - samples[0].at))
        start = stats.clock - span  # before zero while the axis is longer than what was written

        def x(at: float) -> float:
            return area.left() + (at - start) / span * area.width()

        def y(rate: float) -> float:
            return area.bottom() - rate / top * area.height()

        self._paint_axes(painter, metrics, area, labels, span)
        if samples:
            self._paint_rates(painter, [s for s in samples if s.at >= start], x, y, area)
        self._paint_marks(painter, metrics, area, x, start)
        if not samples:
            painter.setPen(_faded(self.palette().text().color(), 0.62))
            upper = QRectF(area.left(), area.top(), area.width(), area.height() / 2)
            painter.drawText(upper, Qt.AlignmentFlag.AlignCenter, "nothing written yet")
        painter.end()

    def _paint_axes(
        self, painter: QPainter, metrics: QFontMetricsF, area: QRectF, labels: list[str], span: float
    ) -> None:
        text = self.palette().windowText().color()
        quiet, grid = _faded(text, 0.72), _faded(text, 0.16)
        line = metrics.height()
        for i, label in enumerate(labels):
            at = round(area.bottom() - area.height() * i / 2) + 0.5
            painter.setPen(_pen(grid))
            painter.drawLine(QPointF(area.left(), at), QPointF(area.right(), at))
            painter.setPen(quiet)
            box = QRectF(0, at - line / 2, area.left() - 5, line)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, label)
        foot = QRectF(area.left(), area.bottom() + 4, area.width(), line)
        painter.drawText(foot, Qt.AlignmentFlag.AlignLeft, f"{span:.0f} s of writing ago")
        painter.drawText(foot, Qt.AlignmentFlag.AlignRight, "now")
        # The legend is in the head: the unit with the filled sign, the plain rate with the dashed one.
        accent = self.palette().highlight().color()
        swatch = QRectF(area.left(), line * 0.25, 14, line * 0.5)
        painter.fillRect(swatch, _faded(accent, 0.35))
        painter.setPen(_pen(accent))
        painter.drawLine(swatch.topLeft(), swatch.topRight())
        painter.setPen(quiet)
        unit = "tok/s"
        painter.drawText(QPointF(swatch.right() + 5, metrics.ascent()), unit)
        if self._stats.plain_rate is not None:
            at = swatch.right() + 5 + metrics.horizontalAdvance(unit) + 14
            painter.setPen(_pen(text, dashed=True))
            middle = round(line / 2) + 0.5
            painter.drawLine(QPointF(at, middle), QPointF(at + 18, middle))
            painter.setPen(quiet)
            painter.drawText(QPointF(at + 23, metrics.ascent()), f"plain {rate_text(self._stats.plain_rate)}")

    def _paint_rates(self, painter: QPainter, samples: list[Sample], x: Axis, y: Axis, area: QRectF) -> None:
        accent = self.palette().highlight().color()
        text = self.palette().windowText().color()
        painter.save()
        painter.setClipRect(area.adjusted(-1, -1, 1, 1))
        for part in split_replies(samples):
            line = QPolygonF([QPointF(x(s.at), y(s.rate)) for s in part])
            if len(part) == 1:  # one point is no line: give it a little width
                line.prepend(QPointF(x(part[0].at) - 3, y(part[0].rate)))
            shape = QPolygonF(line)
            shape.append(QPointF(line.last().x(), area.bottom()))
            shape.append(QPointF(line.first().x(), area.bottom()))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(_faded(accent, 0.30))
            painter.drawPolygon(shape)
            painter.setPen(_pen(accent))
            painter.drawPolyline(line)
            plain = [QPointF(x(s.at), y(s.plain)) for s in part if s.plain is not None]
            if len(plain) > 1:
                painter.setPen(_pen(text, dashed=True))
                painter.drawPolyline(QPolygonF(plain))
        painter.restore()

    def _paint_marks(self, painter: QPainter, metrics: QFontMetricsF, area: QRectF, x: Axis, start: float) -> None:
        text = self.palette().windowText().color()
        row = QRectF(area.left(), metrics.height() + 2, area.width(), metrics.height())
        taken = row.right() + 1.0
        for mark in reversed([m for m in self._stats.marks if m.at >= start]):
            at = round(x(mark.at)) + 0.5
            pen = _pen(_faded(text, 0.6))
            pen.setStyle(Qt.PenStyle.DotLine)
            painter.setPen(pen)
            painter.drawLine(QPointF(at, row.bottom()), QPointF(at, area.bottom()))
            # The newest label wins the room, right of its line where it fits, else left of it.
            wide = metrics.horizontalAdvance(mark.text)
            left = min(at + 3, row.right() - wide)
            if left >= row.left() and left + wide <= taken:
                painter.setPen(_faded(text, 0.85))
                painter.drawText(QPointF(left, row.top() + metrics.ascent()), mark.text)
                taken = left - 6


def _pen(color: QColor, dashed: bool = False) -> QPen:
    pen = QPen(color, 1)
    pen.setCosmetic(True)
    if dashed:
        pen.setDashPattern([4, 3])
    return pen


def _faded(color: QColor, alpha: float) -> QColor:
    faded = QColor(color)
    faded.setAlphaF(alpha)
    return faded


def _axis_number(value: float) -> str:
    return f"{value:g}" if value < 1000 else f"{value / 1000:g}k"
