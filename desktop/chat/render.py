"""Renders one block of markdown into a scratch document, tamed: no HTML, no pictures, our own spacing.

Knows Qt's text classes and the theme's colours; does not know where in a message the block will stand.
"""

from __future__ import annotations

from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontDatabase,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrameFormat,
    QTextLength,
    QTextTable,
)

from desktop.theme import Colors

_FEATURES = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML
_PROPORTIONAL = QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
_FIXED = QTextBlockFormat.LineHeightTypes.FixedHeight.value
LINE_HEIGHT = 125.0  # per cent
CODE_TOP, CODE_SIDE, CODE_BOTTOM = 36, 14, 14  # pixels around the lines of a code block
GREY = QColor(128, 128, 128, 48)  # behind inline code, on any scheme
# One character for one, so that places in the source stay what they are.
_CLEAN = {0: 0xFFFD, 0x0D: 0x20, 0xFFFC: 0xFFFD, 0x2029: 0x20, 0xFDD0: 0xFFFD, 0xFDD1: 0xFFFD}


def clean(text: str) -> str:
    """`text` without what a text document cannot hold (NUL, half surrogates, its own marks), as long as before."""
    text = text.translate(_CLEAN)
    if text.isascii():
        return text
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def code_font(base: QFont) -> QFont:
    """The system's fixed font, a little smaller than `base`."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    if base.pointSizeF() > 0:
        font.setPointSizeF(base.pointSizeF() * 0.92)
    else:
        font.setPixelSize(max(9, round(base.pixelSize() * 0.92)))
    return font


def text_format() -> QTextBlockFormat:
    """A paragraph that is shown as it is."""
    block = QTextBlockFormat()
    block.setLineHeight(LINE_HEIGHT, _PROPORTIONAL)
    block.setTopMargin(6)
    block.setBottomMargin(6)
    return block


def code_format() -> QTextBlockFormat:
    """A line of a code block; its first and last line get more room from the typesetter."""
    block = QTextBlockFormat()
    block.setLeftMargin(CODE_SIDE)
    block.setRightMargin(CODE_SIDE)
    block.setLineHeight(112.0, _PROPORTIONAL)
    block.setProperty(QTextFormat.Property.BlockCodeFence.value, "`")
    return block


def render(scratch: QTextDocument, source: str, colors: Colors) -> None:
    """Render `source` into `scratch`, which is emptied first."""
    scratch.setMarkdown(source, _FEATURES)
    whole = QTextCursor(scratch)
    whole.select(QTextCursor.SelectionType.Document)
    spacing = QTextBlockFormat()
    spacing.setLineHeight(LINE_HEIGHT, _PROPORTIONAL)
    whole.mergeBlockFormat(spacing)
    if "#" in source or "=" in source or "-" in source:
        _space_headings(scratch)
    if "|" in source:
        _style_tables(scratch, colors)
    if "`" in source or "[" in source or "http" in source or "www." in source or "@" in source:
        _touch_up(scratch, colors)


def _space_headings(scratch: QTextDocument) -> None:
    block = scratch.begin()
    while block.isValid():
        if block.blockFormat().headingLevel():
            spacing = QTextBlockFormat()
            spacing.setTopMargin(14 if block.blockFormat().headingLevel() < 3 else 10)
            spacing.setBottomMargin(4)
            QTextCursor(block).mergeBlockFormat(spacing)
        block = block.next()


def _style_tables(scratch: QTextDocument, colors: Colors) -> None:
    for frame in scratch.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            look = frame.format()
            look.setBorder(1)
            look.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
            look.setBorderBrush(QBrush(colors.border))
            look.setBorderCollapse(True)
            look.setCellPadding(5)
            look.setCellSpacing(0)
            look.setTopMargin(4)
            look.setBottomMargin(8)
            look.setWidth(QTextLength())
            frame.setFormat(look)
    first = scratch.firstBlock()
    if not first.text() and first.next().isValid():  # the empty line that stands before a table
        flat = QTextBlockFormat()
        flat.setLineHeight(4.0, _FIXED)
        QTextCursor(first).setBlockFormat(flat)


def _touch_up(scratch: QTextDocument, colors: Colors) -> None:
    """Inline code gets a ground, links a colour that reads, and a picture becomes a link to it."""
    changes: list[tuple[int, int, QTextCharFormat, str | None]] = []
    block = scratch.begin()
    while block.isValid():
        part = block.begin()
        while not part.atEnd():
            fragment = part.fragment()
            look = fragment.charFormat()
            start, end = fragment.position(), fragment.position() + fragment.length()
            if look.isImageFormat():
                image = look.toImageFormat()
                name = image.property(QTextFormat.Property.ImageAltText.value) or "picture"
                changes.append((start, end, _link(image.name(), colors), str(name)))
            elif look.isAnchor():
                changes.append((start, end, _link(look.anchorHref(), colors), None))
            elif look.fontFixedPitch():
                ground = QTextCharFormat()
                ground.setBackground(GREY)
                changes.append((start, end, ground, None))
            part += 1
        block = block.next()
    cursor = QTextCursor(scratch)
    for start, end, look, text in reversed(changes):
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        if text is None:
            cursor.mergeCharFormat(look)
        else:
            cursor.insertText(text, look)


def _link(href: str, colors: Colors) -> QTextCharFormat:
    look = QTextCharFormat()
    look.setAnchor(True)
    look.setAnchorHref(href)
    look.setForeground(colors.accent)
    look.setFontUnderline(True)
    return look


def recolor(document: QTextDocument, colors: Colors) -> None:
    """Give links and tables of a finished document the colours of another scheme."""
    links: list[tuple[int, int]] = []
    block = document.begin()
    while block.isValid():
        part = block.begin()
        while not part.atEnd():
            fragment = part.fragment()
            if fragment.charFormat().isAnchor():
                links.append((fragment.position(), fragment.position() + fragment.length()))
            part += 1
        block = block.next()
    cursor, ink = QTextCursor(document), QTextCharFormat()
    ink.setForeground(colors.accent)
    cursor.beginEditBlock()
    for start, end in links:
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        cursor.mergeCharFormat(ink)
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            look = frame.format()
            look.setBorderBrush(QBrush(colors.border))
            frame.setFormat(look)
    cursor.endEditBlock()
