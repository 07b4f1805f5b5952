"""LaTeX in a message: found between its marks and drawn in the line as an object of the text.

A formula takes one character of the document and keeps its source, so that copying gives LaTeX again. Until it is
set, and where it cannot be set, its source is drawn. Knows Qt's text classes; does not know messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QByteArray, QPointF, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontInfo,
    QFontMetricsF,
    QPainter,
    QPyTextObject,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtSvg import QSvgRenderer

from desktop.chat.align import positions
from desktop.chat.press import Picture, press

LONGEST = 1_200  # characters of a formula
DEEPEST = 24  # braces in each other
AHEAD = 120  # marks between the ends of a formula, at most
MANY = 300  # formulas in one block
OBJECT = "\ufffc"
KIND = QTextFormat.ObjectTypes.UserObject.value + 1
_SOURCE = QTextFormat.Property.UserProperty.value + 1  # the LaTeX, without its marks
_DISPLAY = _SOURCE + 1  # whether it stands in a line of its own
_SIZE = _SOURCE + 2  # pixels of an em
_ALONE = _SOURCE + 3  # in a paragraph in which nothing else stands
_HOLD = 0xE000  # private characters that hold a formula's place in the markdown

_MARK = re.compile(r"`+|\\\\|\\[$()\[\]]|\$\$|\$|\n[ \t]*\n")
_CLOSES = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_NESTED = re.compile(r"\s*(?:[-*+>|]|\d{1,9}[.)])")
_OTHER_SCRIPTS = re.compile("[\u0590-\u08ff\u0900-\u1fff\u2e80-\uffff\U00010000-\U0001d3ff\U0001d800-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Formula:
    """What was written, whether it stands in a line of its own, and the pixels of an em."""

    latex: str
    display: bool
    size: float


def plausible(latex: str) -> bool:
    """Whether LaTeX is worth setting: not too long or deep, its braces and environments closed, its script known."""
    if not latex.strip() or len(latex) > LONGEST or _OTHER_SCRIPTS.search(latex):
        return False
    now = most = 0
    for c in re.sub(r"\\\\|\\[{}]", "", latex):
        now += (c == "{") - (c == "}")
        most = max(most, now)
        if now < 0:
            return False
    pairs = ((r"\begin{", r"\end{"), (r"\left", r"\right"))
    return now == 0 and most <= DEEPEST and all(len(_command(a, latex)) == len(_command(b, latex)) for a, b in pairs)


def _command(name: str, latex: str) -> list[str]:
    return re.findall(re.escape(name) + ("" if name.endswith("{") else "(?![a-zA-Z])"), latex)


@dataclass(frozen=True, slots=True)
class Masked:
    """Markdown whose formulas are one private character each; `back` has for each character of the source, and for
    its end, the place in `text`."""

    text: str
    formulas: tuple[Formula, ...]
    back: list[int] | None  # None: nothing was changed


def _find(source: str) -> Iterator[tuple[int, int, str, bool]]:
    """Where formulas stand: from, to, their LaTeX, and whether they stand for themselves."""
    marks = list(_MARK.finditer(source))
    last = {mark[0]: n for n, mark in enumerate(marks)}
    k = 0
    while k < len(marks):
        opens, start = marks[k][0], marks[k].start()
        k += 1
        if opens[0] == "`":  # code: nothing until as many ticks
            same = next((n for n in range(k, min(k + AHEAD, len(marks))) if marks[n][0] == opens), -1)
            k = same + 1 if same >= 0 else k
            continue
        if last.get(_CLOSES.get(opens, ""), -1) < k or (opens == "$" and not _may_open(source, start)):
            continue
        for n in range(k, min(k + AHEAD, len(marks))):
            mark, at = marks[n][0], marks[n].start()
            if mark[0] == "\n" or at - start > LONGEST or (opens == "$" and mark == "$$"):
                break
            if mark == _CLOSES[opens]:
                latex = source[start + len(opens) : at]
                if opens == "$" and ("\n" in latex or not _may_close(source, at)):
                    break
                yield start, at + len(mark), latex, opens in ("$$", "\\[")
                k = n + 1
                break


def _may_open(source: str, at: int) -> bool:
    """Whether a dollar may begin a formula: not one of money, nor of a shell."""
    before, after = source[at - 1 : at], source[at + 1 : at + 2]
    return not (before.isalnum() or before == "_") and bool(after.strip())


def _may_close(source: str, at: int) -> bool:
    before, after = source[at - 1], source[at + 1 : at + 2]
    return bool(before.strip()) and not (after.isalnum() or after == "_")


def mask(source: str, size: float) -> Masked:
    """Take the formulas out of markdown, so that its marks leave them alone."""
    if ("$" not in source and "\\" not in source) or any("\ue000" <= c <= "\uf8ff" for c in source):
        return Masked(source, (), None)
    parts: list[str] = []
    formulas: list[Formula] = []
    back: list[int] = []
    at = length = 0
    for start, end, latex, own in _find(source):
        if len(formulas) >= MANY or not plausible(latex):
            continue
        before, hold = source[at:start], chr(_HOLD + len(formulas))
        back += range(length, length + len(before))
        length += len(before)
        break_before, break_after = _breaks(source, start, end) if own else ("", "")
        back += [length + len(break_before)] * (end - start)
        parts += [before, break_before, hold, break_after]
        length += len(break_before) + 1 + len(break_after)
        formulas.append(Formula(" ".join(latex.split()), own, size))
        at = end
    if not formulas:
        return Masked(source, (), None)
    back += range(length, length + len(source) - at + 1)
    return Masked("".join([*parts, source[at:]]), tuple(formulas), back)


def _breaks(source: str, start: int, end: int) -> tuple[str, str]:
    """What gives a formula a paragraph of its own where it stands in one with text; nothing in lists and tables."""
    line = source[source.rfind("\n", 0, start) + 1 : start]
    if _NESTED.match(line):
        return "", ""
    indent = line if not line.strip() else ""
    following = source[end : end + 200]
    inside = bool(following.strip()) and not following.lstrip(" \t").startswith("\n\n")
    return (f"\n\n{indent}" if source[:start].strip() else ""), (f"\n\n{indent}" if inside else "")


def held(text: str) -> str:
    """What `mask` gave as it stands in the document."""
    return re.sub("[\ue000-\uf8ff]", OBJECT, text)


def set_formulas(document: QTextDocument, formulas: tuple[Formula, ...]) -> None:
    """Put the formulas of `mask` into the document that was rendered from its text."""
    cursor = QTextCursor(document)
    text = document.toRawText().encode("utf-16-le", "surrogatepass")
    for at in range(len(text) // 2 - 1, -1, -1):
        number = int.from_bytes(text[2 * at : 2 * at + 2], "little") - _HOLD
        if not 0 <= number < len(formulas):
            continue
        formula = formulas[number]
        cursor.setPosition(at)
        cursor.setPosition(at + 1, QTextCursor.MoveMode.KeepAnchor)
        look = cursor.charFormat()
        look.setObjectType(KIND)
        look.setProperty(_SOURCE, formula.latex)
        look.setProperty(_DISPLAY, formula.display)
        look.setProperty(_SIZE, formula.size)
        look.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        is_alone = formula.display and cursor.block().length() == 2
        look.setProperty(_ALONE, is_alone)
        cursor.insertText(OBJECT, look)
        if is_alone:
            alone = QTextBlockFormat()
            alone.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            alone.setTopMargin(8)
            alone.setBottomMargin(8)
            # A line height in per cent would be taken of the formula's height.
            alone.setLineHeight(0, QTextBlockFormat.LineHeightTypes.SingleHeight.value)
            cursor.mergeBlockFormat(alone)


def em_of(font: QFont) -> float:
    """Pixels of an em of a formula beside text in `font`. STIX is drawn small on its em."""
    return float(QFontInfo(font).pixelSize()) * 1.12


def formula_of(look: QTextCharFormat) -> Formula | None:
    """The formula that a format stands for."""
    if look.objectType() != KIND:
        return None
    return Formula(str(look.property(_SOURCE)), bool(look.property(_DISPLAY)), float(look.property(_SIZE)))


def source_of(look: QTextCharFormat) -> str:
    """The LaTeX of a formula with its marks, "" for any other format."""
    if look.objectType() != KIND:
        return ""
    latex = str(look.property(_SOURCE))
    return f"$$\n{latex}\n$$" if look.property(_DISPLAY) else f"${latex}$"


def plain_text(document: QTextDocument, start: int = 0, end: int = -1) -> str:
    """The text from `start` to `end` as it is copied: formulas as LaTeX, nothing that only holds a place."""
    cursor = QTextCursor(document)
    last = document.characterCount() - 1
    cursor.setPosition(min(start, last))
    cursor.setPosition(last if end < 0 else min(end, last), QTextCursor.MoveMode.KeepAnchor)
    text = cursor.selection().toPlainText().replace("\u200b", "")
    if OBJECT not in text:
        return text
    sources, reader = [], QTextCursor(document)
    at = cursor.selectionStart()
    while at < cursor.selectionEnd():
        if document.characterAt(at) == OBJECT:
            reader.setPosition(at + 1)
            sources.append(source_of(reader.charFormat()))
        at += 1
    pieces = text.split(OBJECT)
    sources += [""] * (len(pieces) - 1 - len(sources))
    return pieces[0] + "".join(source + piece for source, piece in zip(sources, pieces[1:], strict=False))


class FormulaPainter(QPyTextObject):
    """Measures and draws the formulas of a document, in the colour of its text; their source until they are set."""

    def __init__(self, ink: str) -> None:
        super().__init__()
        self.ink = ink
        self.waiting: set[Formula] = set()  # those that were asked for and not set yet

    def came(self, document: QTextDocument) -> list[int]:
        """Where those stand that were waited for and can be drawn now: lay the text out again there."""
        left = {formula for formula in self.waiting if not press().known(formula)}
        fresh, self.waiting = self.waiting - left, left
        if not fresh:
            return []
        found, reader, text = [], QTextCursor(document), document.toRawText()
        places = None if max(text) <= "\uffff" else positions(text)
        at = -1
        while (at := text.find(OBJECT, at + 1)) >= 0:
            place = places[at] if places else at
            reader.setPosition(place + 1)
            if formula_of(reader.charFormat()) in fresh:
                found.append(place)
        return found

    def intrinsicSize(self, document: QTextDocument, place: int, look: QTextFormat) -> QSizeF:
        formula = formula_of(look.toCharFormat())
        if formula is None:
            return QSizeF(1, 1)
        picture = self._picture(formula)
        scale, above, below = _room(picture, document, look.toCharFormat())
        return QSizeF(picture.width * scale + 2, above + below)

    def _picture(self, formula: Formula) -> Picture:
        if not press().known(formula):
            self.waiting.add(formula)
        made = press().get(formula)
        # What came since the text was laid out has no room yet.
        return made if made is not None and formula not in self.waiting else _in_letters(formula)

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, document: QTextDocument, place: int, look: QTextFormat
    ) -> None:
        formula = formula_of(look.toCharFormat())
        if formula is None:
            return
        picture = self._picture(formula)
        scale, above, _ = _room(picture, document, look.toCharFormat())
        top = rect.top() + above - picture.ascent * scale
        box = QRectF(rect.left() + 1, top, picture.width * scale, (picture.ascent + picture.descent) * scale)
        if picture.svg:
            _drawing(picture, self.ink).render(painter, box)
            return
        painter.save()
        painter.setPen(QColor(self.ink))
        painter.setFont(_letters(formula.size))
        painter.translate(box.left(), box.top() + picture.ascent * scale)
        painter.scale(scale, scale)
        painter.drawText(QPointF(0, 0), formula.latex)
        painter.restore()


def _room(picture: Picture, document: QTextDocument, look: QTextCharFormat) -> tuple[float, float, float]:
    """The scale, and pixels above and below the line: one of them padded, so that the line is where Qt puts it."""
    wide = document.textWidth()
    scale = min(1.0, max(0.3, (wide - 4) / picture.width)) if wide > 0 else 1.0
    above, below = picture.ascent * scale, picture.descent * scale
    if look.property(_ALONE):
        return scale, above, below
    # Qt sets such an object with half of the x-height more above the line than below it.
    lift = QFontMetricsF(look.font()).xHeight() / 2
    return scale, max(above, below + lift), max(below, above - lift)


def _letters(size: float) -> QFont:
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPixelSize(max(6, round(size * 0.82)))
    return font


@lru_cache(maxsize=512)
def _in_letters(formula: Formula) -> Picture:
    metrics = QFontMetricsF(_letters(formula.size))
    width = metrics.horizontalAdvance(formula.latex)
    return Picture(b"", max(1.0, width), metrics.ascent(), metrics.descent())


@lru_cache(maxsize=512)
def _drawing(picture: Picture, ink: str) -> QSvgRenderer:
    return QSvgRenderer(QByteArray(picture.svg.replace(b'"black"', f'"{ink}"'.encode())))
