"""A finished race as a picture: both texts, both clocks, the verdict. Painted anew, whatever size its window has.

Knows a race and a palette.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPalette, QTextCursor, QTextDocument, QTextOption

from desktop.race.column import airy, look
from desktop.race.result import Lap, Race, lap_line, parted_words, ratio_line, same_line, terms
from desktop.sidebar.bars import part_brushes
from desktop.theme import Colors, colors, drafter_order
from desktop.tokens.legend import paint_legend
from mlx_spec.events import Span

WIDE, EDGE, GAP = 1200, 36, 28
BAR = 10
TEXT = 1_800  # characters of each text; more says nothing more
PROMPT = 400
SCALE = 2


def picture(race: Race, palette: QPalette, font: QFont) -> QImage:
    """The picture, WIDE pixels wide at a scale of SCALE."""
    tall = _paint(None, race, palette, font)
    image = QImage(WIDE * SCALE, round(tall) * SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SCALE)
    image.fill(palette.color(QPalette.ColorRole.Base))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
    _paint(painter, race, palette, font)
    painter.end()
    return image


def _paint(painter: QPainter | None, race: Race, palette: QPalette, font: QFont) -> float:
    """Paint, or only measure without a painter; the height."""
    ink = colors(palette)
    room = WIDE - 2 * EDGE
    y = float(EDGE)
    y = _words(painter, _cut(race.prompt, PROMPT), _sized(font, 1.25, bold=True), ink.text, EDGE, y, room) + 18
    lane = (room - GAP) / 2
    slower = max(race.plain.seconds, race.drafted.seconds)
    tops = []
    for k, lap in enumerate((race.plain, race.drafted)):
        tops.append(_lane(painter, lap, slower, palette, ink, font, EDGE + k * (lane + GAP), y, lane))
    y = max(tops) + 20
    if painter is not None:
        painter.fillRect(QRectF(EDGE, y, room, 1), ink.border)
    y += 18
    y = _words(painter, ratio_line(race), _sized(font, 2.0, bold=True), ink.text, EDGE, y, room) + 2
    y = _words(painter, same_line(race), _sized(font, 1.4), ink.text if race.same else ink.danger, EDGE, y, room) + 10
    if not race.same:
        y = _words(painter, parted_words(), _sized(font, 0.95), ink.muted, EDGE, y, room) + 6
    y = _words(painter, f"{terms(race)} Outrider.", _sized(font, 0.95), ink.muted, EDGE, y, room) + 12
    names = drafter_order(tuple({r.drafter for r in race.drafted.rounds if r.drafter and r.accepted}))
    y += paint_legend(painter, names, ink, font, QPointF(EDGE, y), room)
    return y + EDGE


def _lane(
    painter: QPainter | None,
    lap: Lap,
    slower: float,
    palette: QPalette,
    ink: Colors,
    font: QFont,
    x: float,
    y: float,
    wide: float,
) -> float:
    y = _words(painter, lap.title, _sized(font, 1.1, bold=True), ink.muted, x, y, wide)
    y = _words(painter, f"{lap.seconds:.2f} s", _sized(font, 2.4, bold=True), ink.text, x, y, wide)
    y = _words(painter, lap_line(lap), _sized(font, 1.0), ink.text, x, y, wide) + 8
    if painter is not None:
        painter.fillRect(QRectF(x, y, wide, BAR), ink.panel)
        share = lap.seconds / slower if slower > 0 else 0.0
        painter.fillRect(QRectF(x, y, wide * share, BAR), part_brushes(palette)[0])
    y += BAR + 14
    spans = [s for r in lap.rounds for s in r.spans]
    spans += lap.finished.tail if lap.finished is not None else ()
    document = _document(_shortened(spans), font, ink, wide)
    return _draw(document, painter, x, y)


def _document(spans: Sequence[Span], font: QFont, ink: Colors, wide: float) -> QTextDocument:
    document = QTextDocument()
    document.setDocumentMargin(0)
    document.setDefaultFont(_sized(font, 1.05))
    option = QTextOption()
    option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    document.setDefaultTextOption(option)
    document.setTextWidth(wide)
    cursor = QTextCursor(document)
    cursor.setBlockFormat(airy())
    for span in spans:
        form = look(span.drafter, ink.dark)
        form.setForeground(ink.text)
        cursor.insertText(span.text, form)
    return document


def _shortened(spans: Sequence[Span]) -> list[Span]:
    """The spans up to TEXT characters, with a sign that there was more."""
    found: list[Span] = []
    room = TEXT
    for span in spans:
        if len(span.text) > room:
            return [*found, Span(span.text[:room], span.drafter), Span(" …")]
        found.append(span)
        room -= len(span.text)
    return found


def _words(painter: QPainter | None, text: str, font: QFont, ink: QColor, x: float, y: float, wide: float) -> float:
    """Text in a box; where it ends."""
    document = QTextDocument()
    document.setDocumentMargin(0)
    document.setDefaultFont(font)
    document.setTextWidth(wide)
    form = look(None, False)
    form.setForeground(ink)
    QTextCursor(document).insertText(text, form)
    return _draw(document, painter, x, y)


def _sized(font: QFont, factor: float, bold: bool = False) -> QFont:
    made = QFont(font)
    made.setPointSizeF(font.pointSizeF() * factor)
    made.setBold(bold)
    return made


def _cut(text: str, most: int) -> str:
    text = text.strip()
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _draw(document: QTextDocument, painter: QPainter | None, x: float, y: float) -> float:
    """Draw at a place, or only measure; returns where it ends."""
    if painter is not None:
        painter.save()
        painter.translate(x, y)
        document.drawContents(painter)
        painter.restore()
    return y + document.size().height()
