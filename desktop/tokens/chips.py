"""How one token looks: tinted and underlined like in the chat, struck through, plain, or still being checked.

Knows the theme and tokens; lays nothing out.
"""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QPolygonF, QTextCharFormat

from desktop.theme import Colors, DrafterStyle, drafter_style
from desktop.tokens.pieces import Fate, Token, seen

PAD = 2.0  # at each side of a token
_Line = QTextCharFormat.UnderlineStyle
DASHES: dict[QTextCharFormat.UnderlineStyle, list[float]] = {
    _Line.DotLine: [1, 2],
    _Line.DashUnderline: [5, 3],
    _Line.DashDotLine: [6, 2, 1, 2],
    _Line.DashDotDotLine: [6, 2, 1, 2, 1, 2],
}
UNKNOWN = "?"  # who drafted is always known; a damaged round still has to be painted


def chip_width(metrics: QFontMetricsF, token: Token) -> float:
    """The pixels that a token takes in its line."""
    return metrics.horizontalAdvance(seen(token.text)) + 2 * PAD


def paint_chip(
    painter: QPainter, rect: QRectF, token: Token, colors: Colors, metrics: QFontMetricsF, waiting: bool = False
) -> None:
    """Paint a token into `rect`. `waiting`: it is drafted, and not yet known whether it holds."""
    text = seen(token.text)
    baseline = rect.top() + (rect.height() + metrics.ascent() - metrics.descent()) / 2
    at = QPointF(rect.left() + PAD, baseline)
    style = drafter_style(token.drafter or UNKNOWN, colors.dark)
    if waiting:
        pen = QPen(style.ink, 1)
        pen.setCosmetic(True)
        pen.setDashPattern([3, 2])
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(round(rect.left()) + 0.5, round(rect.top()) + 1.5, rect.width() - 1, rect.height() - 4))
        painter.setPen(style.ink)
        painter.drawText(at, text)
    elif token.fate is Fate.HELD:
        painter.fillRect(rect.adjusted(0, 1, 0, -2), style.tint)
        painter.setPen(colors.text)
        painter.drawText(at, text)
        underline(painter, rect, style)
    elif token.fate is Fate.OWN:
        painter.setPen(colors.text)
        painter.drawText(at, text)
    else:
        ink = style.ink if token.fate is Fate.REJECTED else colors.ghost
        painter.setPen(ink)
        painter.drawText(at, text)
        if token.fate is not Fate.UNREAD:
            strike(painter, rect, baseline - metrics.strikeOutPos(), ink)


def underline(painter: QPainter, rect: QRectF, style: DrafterStyle) -> None:
    """A drafter's own line along the bottom of `rect`."""
    y = round(rect.bottom() - 3) + 0.5
    pen = QPen(style.ink, 1)
    pen.setCosmetic(True)
    if style.line == _Line.WaveUnderline:
        count = max(2, int(rect.width() / 3))
        step = rect.width() / count
        painter.setPen(pen)
        painter.drawPolyline(
            QPolygonF([QPointF(rect.left() + i * step, y + (1 if i % 2 else -1)) for i in range(count + 1)])
        )
        return
    if style.line in DASHES:
        pen.setDashPattern(DASHES[style.line])
    painter.setPen(pen)
    painter.drawLine(QPointF(rect.left(), y), QPointF(rect.right(), y))


def strike(painter: QPainter, rect: QRectF, y: float, ink: QColor) -> None:
    """A line through the middle of a token."""
    pen = QPen(ink, 1)
    pen.setCosmetic(True)
    painter.setPen(pen)
    painter.drawLine(QPointF(rect.left() + 1, round(y) + 0.5), QPointF(rect.right() - 1, round(y) + 0.5))
