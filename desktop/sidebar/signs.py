"""A drafter's cell: a square in its ink with the same line through it that underlines its tokens in the text.

Dots, dashes, a wave or a solid line, and a corner cut off the squares of heads, tell the drafters apart where colours
do not.
"""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF, QTextCharFormat

from desktop.theme import drafter_style

Line = QTextCharFormat.UnderlineStyle
# Strokes through the cell as (from, to) in thirds of its width; a wave is drawn apart.
STROKES: dict[QTextCharFormat.UnderlineStyle, tuple[tuple[float, float], ...]] = {
    Line.SingleUnderline: ((0.0, 1.0),),
    Line.DotLine: ((0.1, 0.3), (0.4, 0.6), (0.7, 0.9)),
    Line.DashUnderline: ((0.0, 0.38), (0.62, 1.0)),
    Line.DashDotLine: ((0.0, 0.5), (0.72, 0.92)),
    Line.DashDotDotLine: ((0.0, 0.42), (0.58, 0.7), (0.86, 0.98)),
}
CUT = 0.4  # of the side
TOO_NARROW = 6.0  # pixels under which a line through the cell cannot be told any more


def paint_accepted(painter: QPainter, rect: QRectF, name: str, dark: bool) -> None:
    """Paint the cell of a drafted token that held."""
    style = drafter_style(name, dark)
    if style.cut and rect.width() >= TOO_NARROW:
        off = rect.width() * CUT
        corners = [rect.topLeft(), rect.topRight() - QPointF(off, 0), rect.topRight() + QPointF(0, off)]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(style.ink)
        painter.drawPolygon(QPolygonF([*corners, rect.bottomRight(), rect.bottomLeft()]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    else:
        painter.fillRect(rect, style.ink)
    if rect.width() < TOO_NARROW:
        return
    ground = QColor("#1b1b1b") if dark else QColor("#ffffff")
    pen = QPen(ground, 2)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    y, left, wide = round(rect.center().y() + 1.5), rect.left() + 1, rect.width() - 2
    if style.line == Line.WaveUnderline:
        points = [QPointF(left + wide * i / 4, y + (2 if i % 2 else -2)) for i in range(5)]
        painter.setPen(QPen(ground, 1))
        painter.drawPolyline(QPolygonF(points))
        return
    for start, end in STROKES.get(style.line, STROKES[Line.SingleUnderline]):
        painter.drawLine(QLineF(left + start * wide, y, left + end * wide, y))
