"""Paints the rows beside the transcript: headings, chats, and what a search found, each text in its own direction.

Knows rows and colours; does not know what is done with them.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPen,
    QPolygonF,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from desktop.chat.align import positions
from desktop.chat.chat_rows import ENTRY, UNTITLED, AnyIndex, Heading
from desktop.search import Hit
from desktop.theme import Colors, colors_of, readable

SIDE, INSIDE = 6, 10  # pixels beside a row's ground, and between it and the text
MARK = 15  # pixels for the sign of an incognito or a pinned chat
_State = QStyle.StateFlag


def is_right_to_left(text: str) -> bool:
    """Whether the first strong character of a text is from a script that runs to the left."""
    for c in text:
        kind = unicodedata.bidirectional(c)
        if kind == "L":
            return False
        if kind in ("R", "AL"):
            return True
    return False


def draw_text(
    painter: QPainter,
    box: QRect,
    text: str,
    font: QFont,
    ink: QColor,
    marks: Sequence[tuple[int, int]] = (),
    colors: Colors | None = None,
    lines: int = 1,
) -> None:
    """Text in its own direction from the box's top, at most so many lines, cut with dots; `marks` as hits."""
    right = is_right_to_left(text)
    metrics = QFontMetrics(font)
    if lines == 1:
        short = metrics.elidedText(text, Qt.TextElideMode.ElideRight, box.width())
        kept = len(short) - 1 if short != text else len(text)
        marks, text = [(a, min(b, kept)) for a, b in marks if a < kept], short
    option = QTextOption(Qt.AlignmentFlag.AlignAbsolute | _side(right))
    option.setTextDirection(Qt.LayoutDirection.RightToLeft if right else Qt.LayoutDirection.LeftToRight)
    wrap = QTextOption.WrapMode
    option.setWrapMode(wrap.NoWrap if lines == 1 else wrap.WrapAtWordBoundaryOrAnywhere)
    if lines > 1:
        short = _cut(text, font, option, box.width(), lines)
        kept = len(short) - 1 if short != text else len(text)
        marks, text = [(a, min(b, kept)) for a, b in marks if a < kept], short
    layout = QTextLayout(text, font)
    layout.setTextOption(option)
    if marks and colors is not None:
        place = positions(text)
        look = QTextCharFormat()
        look.setBackground(colors.hit)
        look.setForeground(colors.on_hit)
        found = []
        for start, end in marks:
            made = QTextLayout.FormatRange()
            made.start, made.length, made.format = place[start], place[end] - place[start], look
            found.append(made)
        layout.setFormats(found)
    _lay(layout, box.width(), lines)
    painter.setPen(ink)
    layout.draw(painter, QPointF(box.topLeft()))


def _lay(layout: QTextLayout, width: int, lines: int) -> None:
    layout.beginLayout()
    y = 0.0
    for _ in range(lines):
        line = layout.createLine()
        if not line.isValid():
            break
        line.setLineWidth(width)
        line.setPosition(QPointF(0, y))
        y += line.height()
    layout.endLayout()


def _cut(text: str, font: QFont, option: QTextOption, width: int, lines: int) -> str:
    """A text that fits into so many lines, with dots at its end where it did not."""
    layout = QTextLayout(text, font)
    layout.setTextOption(option)
    _lay(layout, width, lines)
    if layout.lineCount() < lines:
        return text
    start = bisect_left(positions(text), layout.lineAt(lines - 1).textStart())
    return text[:start] + QFontMetrics(font).elidedText(text[start:], Qt.TextElideMode.ElideRight, width)


def _side(right: bool) -> Qt.AlignmentFlag:
    return Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft


def ground(painter: QPainter, box: QRect, colors: Colors, state: QStyle.StateFlag, is_open: bool) -> QColor:
    """The ground of a row, by its state; returns the colour of the text on it."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    ink = colors.text
    painter.setPen(Qt.PenStyle.NoPen)
    if is_open or state & _State.State_Selected:
        painter.setBrush(colors.bubble)
        painter.drawRoundedRect(box, 7, 7)
        ink = readable(colors.text, colors.bubble)
    elif state & _State.State_MouseOver:
        painter.setBrush(colors.panel)
        painter.drawRoundedRect(box, 7, 7)
    if state & _State.State_HasFocus:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colors.accent, 1.5))
        painter.drawRoundedRect(QRectF(box).adjusted(0.75, 0.75, -0.75, -0.75), 7, 7)
    return ink


def draw_incognito(painter: QPainter, center: QPointF, ink: QColor, size: float = 11.0) -> None:
    """A hat over a pair of glasses, about `size` pixels wide."""
    u = size / 11.0
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(center)
    painter.scale(u, u)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ink)
    painter.drawRect(QRectF(-5.5, -1.6, 11, 1.4))
    painter.drawPolygon(QPolygonF([QPointF(-3.2, -1.6), QPointF(-2.4, -5), QPointF(2.4, -5), QPointF(3.2, -1.6)]))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(ink, 1.1))
    painter.drawEllipse(QPointF(-2.8, 2.4), 1.8, 1.8)
    painter.drawEllipse(QPointF(2.8, 2.4), 1.8, 1.8)
    painter.drawLine(QPointF(-1.0, 2.2), QPointF(1.0, 2.2))
    painter.restore()


class ChatPainter(QStyledItemDelegate):
    """Headings and chats."""

    open_id: int | None = None
    menu_row = -1  # the row that a context menu is about

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        return QSize(60, option.fontMetrics.height() + 14)

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: AnyIndex) -> QWidget:
        editor = QLineEdit(parent)
        editor.setAccessibleName("Title")
        editor.setMaxLength(200)
        editor.setAutoFillBackground(True)
        editor.setTextMargins(INSIDE - 3, 0, 4, 0)  # where the title was
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        editor.setGeometry(option.rect.adjusted(SIDE, 0, -SIDE, 0))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        row = index.data(ENTRY)
        if row is None:
            return
        painter.save()
        colors = colors_of(option.widget)
        box = option.rect.adjusted(SIDE, 1, -SIDE, -1)
        inside = box.adjusted(INSIDE, 0, -INSIDE, 0)
        inside.setTop(box.top() + (box.height() - option.fontMetrics.height()) // 2)
        if isinstance(row, Heading):
            self._heading(painter, option, row, colors, box, inside)
        else:
            ink = ground(painter, box, colors, option.state, row.id == self.open_id)
            if row.incognito:
                spot = QPointF(inside.right() - 4, box.center().y() + 1)
                draw_incognito(painter, spot, ink)
                inside.setRight(inside.right() - MARK)
            draw_text(painter, inside, row.title or UNTITLED, option.font, ink)
        if index.row() == self.menu_row:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.accent, 1, Qt.PenStyle.DashLine))
            painter.drawRoundedRect(QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5), 7, 7)
        painter.restore()

    def _heading(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        row: Heading,
        colors: Colors,
        box: QRect,
        inside: QRect,
    ) -> None:
        window = option.palette.window().color()
        ground(painter, box, colors, option.state & ~_State.State_Selected, False)
        ink = readable(colors.muted, window)
        font = QFont(option.font)
        font.setPointSizeF(font.pointSizeF() * 0.88)
        font.setWeight(QFont.Weight.DemiBold)
        small = QFontMetrics(font)
        inside.setTop(box.top() + (box.height() - small.height()) // 2)
        middle = QPointF(inside.left() + 3, box.center().y() + 1)
        painter.setPen(QPen(ink, 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin))
        if row.folded:
            arrow = [QPointF(-1.5, -3.5), QPointF(2, 0), QPointF(-1.5, 3.5)]
        else:
            arrow = [QPointF(-3.5, -1.5), QPointF(0, 2), QPointF(3.5, -1.5)]
        painter.drawPolyline(QPolygonF([middle + point for point in arrow]))
        count = f"{row.count:,}"
        wide = small.horizontalAdvance(count)
        draw_text(painter, QRect(inside.right() - wide, inside.top(), wide + 1, inside.height()), count, font, ink)
        draw_text(painter, inside.adjusted(12, 0, -wide - 8, 0), row.title, font, ink)


class HitPainter(QStyledItemDelegate):
    """What a search found: the chat's title, and under it the place in a message."""

    lines = 2

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        hit = index.data(ENTRY)
        high = option.fontMetrics.lineSpacing()
        body = high * self.lines + 3 if isinstance(hit, Hit) and hit.text else 0
        return QSize(60, high + body + 14)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        hit = index.data(ENTRY)
        if not isinstance(hit, Hit):
            return
        painter.save()
        colors = colors_of(option.widget)
        box = option.rect.adjusted(SIDE, 1, -SIDE, -1)
        ink = ground(painter, box, colors, option.state, False)
        inside = box.adjusted(INSIDE, 6, -INSIDE, -4)
        title = QFont(option.font)
        title.setWeight(QFont.Weight.DemiBold)
        high = option.fontMetrics.lineSpacing()
        head = QRect(inside.left(), inside.top(), inside.width(), high)
        draw_text(painter, head, hit.title or UNTITLED, title, ink, hit.title_marks, colors)
        if hit.text:
            rest = QRect(inside.left(), inside.top() + high + 2, inside.width(), high * self.lines)
            on = colors.bubble if option.state & _State.State_Selected else option.palette.window().color()
            draw_text(painter, rest, hit.text, option.font, readable(colors.muted, on), hit.marks, colors, self.lines)
        painter.restore()
