"""Writes a message into a text document while it arrives, and keeps which drafter each piece came from.

Closed blocks are rendered once and stay; the open block is rendered anew while it is short and added to as plain
text when it is long or when time is short. Drafts never enter the document: tints, lines and the room for rejected
drafts are layout formats laid over it. Knows nothing of widgets.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtGui import (
    QFont,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextDocumentFragment,
    QTextFormat,
    QTextLayout,
)

from desktop.chat.align import align, positions, utf16_length
from desktop.chat.blocks import LONGEST, Block, Splitter, is_hostile, read_fence
from desktop.chat.formulas import KIND, FormulaPainter, em_of, held, mask, set_formulas
from desktop.chat.highlight import ink_of, language_of, scan
from desktop.chat.render import CODE_BOTTOM, CODE_TOP, LINE_HEIGHT, clean, code_font, code_format, render, text_format
from desktop.theme import Colors, drafter_style

SHORT = 1_200  # characters up to which an open block is rendered anew
FRAME_S = 0.008  # work in one frame after which the open block is only added to, until idle
ENOUGH_S = 0.8  # work on one message at once after which the rest of it is shown as it is
LONG_LINE = 4_000  # a longer line of plain text is cut, since a line is laid out as a whole

_Move = QTextCursor.MoveOperation
_Mode = QTextCursor.MoveMode


@dataclass(slots=True)
class Rejected:
    """A draft that failed: `source` and `place` say after which character (in the source, in the document)."""

    source: int
    text: str
    drafter: str
    place: int = 0
    room: float = 0.0  # pixels held open for it in the line, 0 if it is not shown


@dataclass(slots=True)
class Panel:
    """A code block: document positions of its first line and its end (-1: still open), language and code."""

    start: int
    end: int
    language: str
    code: str
    goes_on: bool = False  # the end of one that was cut for its length is its beginning


@dataclass(slots=True)
class Run:
    """Document positions of a piece that a drafter proposed."""

    start: int
    end: int
    drafter: str


class Typesetter:
    """One message: its source, its document, and the marks over it."""

    def __init__(self, document: QTextDocument, font: QFont, colors: Colors) -> None:
        self.document = document
        self.colors = colors
        self.show_drafts = True
        self.writing = False  # more text is to come
        self.rejected: list[Rejected] = []
        self.standing: list[Rejected] = []  # those of them that are shown now
        self.panels: list[Panel] = []
        self.runs: list[Run] = []  # of closed blocks
        self.open_runs: list[Run] = []
        self.hits: list[tuple[int, int]] = []  # document positions of what a search found, in order
        self.hit_now = -1  # which of them is being looked at
        self._parts: list[str] = []
        self._spans: list[tuple[int, int, str]] = []  # of the open block, in the source
        self._length = 0  # of the source
        self._open_source = 0  # where the open block starts in the source
        self._open_place = 0  # and in the document
        self._map = [0]  # the open block's places, from its start in the source
        self._shown = ""  # the part of the open block that stands in the document
        self._fresh = True  # the open block has a paragraph to stand in
        self._rushed = False
        self._splitter = Splitter()
        self._scratch = QTextDocument()
        self._scratch.setDefaultFont(font)
        self._em = em_of(font)
        self.formulas = FormulaPainter(colors.text.name())
        document.documentLayout().registerHandler(KIND, self.formulas)
        self._code = QTextCharFormat()
        self._code.setFont(code_font(font))
        document.setDefaultFont(font)
        frame = document.rootFrame().frameFormat()
        frame.setBottomMargin(CODE_BOTTOM)
        document.rootFrame().setFrameFormat(frame)
        QTextCursor(document).setBlockFormat(text_format())

    @property
    def source(self) -> str:
        """The text that came, exactly."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    # ------------------------------------------------------------------------------------ text comes

    def append(self, spans: Iterable[tuple[str, str | None]], rejected: Sequence[Rejected] = ()) -> None:
        """Add text, piece by piece with the drafter it came from, and drafts that failed in it.

        `rejected` have their `source` already set, counted in the whole source after this text.
        """
        started = time.perf_counter()
        self.writing = True
        added = []
        for text, drafter in spans:
            if not text:
                continue
            end = self._length + len(text)
            if drafter is not None:
                if self._spans and self._spans[-1][2] == drafter and self._spans[-1][1] == self._length:
                    self._spans[-1] = (self._spans[-1][0], end, drafter)
                else:
                    self._spans.append((self._length, end, drafter))
            self._length = end
            added.append(text)
        whole = "".join(added)
        self._parts.append(whole)
        self.rejected.extend(rejected)
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        touched = self.document.characterCount()
        blocks = self._splitter.feed(clean(whole))
        for k, block in enumerate(blocks):
            if time.perf_counter() - started > ENOUGH_S:
                for rest in _joined(blocks[k:]):
                    touched = min(touched, self._close(cursor, rest))
                break
            touched = min(touched, self._close(cursor, block))
        touched = min(touched, self._show_open(cursor))
        self.lay_marks(touched)
        cursor.endEditBlock()
        if time.perf_counter() - started > FRAME_S:
            self._rushed = True

    def set_plain(self, text: str, shown: str) -> None:
        """Show `shown` just as it is, as the whole of a message whose source is `text`."""
        self._parts, self._length = [text], len(text)
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        shown = clean(shown)
        frame = self.document.rootFrame().frameFormat()
        frame.setBottomMargin(0)
        self.document.rootFrame().setFrameFormat(frame)
        tight = QTextBlockFormat()
        tight.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        cursor.setBlockFormat(tight)
        for line in shown.split("\n") if len(shown) > LONG_LINE else [shown]:
            for at in range(0, max(1, len(line)), LONG_LINE):
                if cursor.position():
                    cursor.insertBlock()
                cursor.insertText(line[at : at + LONG_LINE])
        cursor.endEditBlock()

    def keep(self, text: str) -> None:
        """Add to the source alone: too much to be shown."""
        self._parts.append(text)
        self._length += len(text)

    def settle(self) -> bool:
        """Render what was only added while time was short. True if there was anything."""
        if not self._rushed:
            return False
        self._rushed = False
        if len(self._splitter.open) > SHORT or self._splitter.open_kind != "text":
            return False
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        self.lay_marks(self._show_open(cursor, again=True))
        cursor.endEditBlock()
        return True

    def finish(self) -> None:
        """No more text comes: close the open block."""
        self.writing = False
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        touched = self.document.characterCount()
        for block in self._splitter.finish():
            touched = min(touched, self._close(cursor, block))
        self.lay_marks(touched)
        cursor.endEditBlock()

    def _close(self, cursor: QTextCursor, block: Block) -> int:
        """Put a closed block in the place of what was shown of it; return where it starts."""
        if not block.source.strip() and not self._shown and block.kind == "text":
            self._open_source += len(block.source)
            return self.document.characterCount()
        self._clear_open(cursor)
        if block.kind in ("fence", "code"):
            places = self._insert_code(cursor, block.source, block.kind, closed=True)
        elif block.kind == "plain":
            places = self._insert_plain(cursor, block.source)
        else:
            places = self._insert_markdown(cursor, block.source)
        start, end = self._open_source, self._open_source + len(block.source)
        self.runs.extend(self._mapped(places, end))
        self._spans = [(max(a, end), b, d) for a, b, d in self._spans if b > end]
        for ghost in self._rejected_since(start):
            if ghost.source <= end:
                ghost.place = self._anchor(places[ghost.source - start])
        touched = self._open_place
        self._open_source, self._shown, self._fresh, self._map = end, "", False, [0]
        self._open_place = self._end()
        self.open_runs = []
        return touched

    def _show_open(self, cursor: QTextCursor, again: bool = False) -> int:
        """Bring the document up to the open block; return where it changed."""
        source = self._splitter.open
        if not source.strip() or (source == self._shown and not again):
            return self.document.characterCount()
        kind = self._splitter.open_kind
        # What was shown as text may turn out to open a fence, and the line of a fence is no code: both are
        # shown anew. From then on code only grows.
        same = kind == "text" or (bool(self.panels) and self.panels[-1].end < 0 and "\n" in self._shown)
        grows = self._shown and source.startswith(self._shown) and same and not again
        if grows and (kind != "text" or self._rushed or len(source) > SHORT):
            added = source[len(self._shown) :]
            touched = self._end()
            if kind == "text":
                self._insert_plain(cursor, added, at_end=True)
            else:
                cursor.movePosition(_Move.End)
                cursor.insertText(added, self._code)
                self.panels[-1].code += added
            self._map = self._map[:-1] + positions(added, self._end() - utf16_length(added))
            self._shown = source
        else:
            self._clear_open(cursor)
            touched = self._open_place
            if kind in ("fence", "code"):
                self._map = self._insert_code(cursor, source, kind, closed=False)
            elif is_hostile(source):
                self._map = self._insert_plain(cursor, source)
            else:
                self._map = self._insert_markdown(cursor, source)
            self._shown = source
        self.open_runs = self._mapped(self._map, self._length)
        for ghost in self._rejected_since(self._open_source):
            ghost.place = self._anchor(self._map[min(ghost.source - self._open_source, len(self._map) - 1)])
        return touched

    def _mapped(self, places: list[int], end: int) -> list[Run]:
        base, found = self._open_source, []
        for start, stop, drafter in self._spans:
            if start >= end:
                break
            first, last = places[max(0, start - base)], places[min(min(stop, end) - base, len(places) - 1)]
            if last > first:
                found.append(Run(first, last, drafter))
        return found

    def _anchor(self, place: int) -> int:
        """A rejected draft hangs on the character before it, or at a line's start on the first one."""
        block = self.document.findBlock(place)
        return place + 1 if block.isValid() and place == block.position() and block.length() > 1 else place

    def _rejected_since(self, source: int) -> list[Rejected]:
        found = []
        for ghost in reversed(self.rejected):
            if ghost.source < source:
                break
            found.append(ghost)
        return found

    # ------------------------------------------------------------------------------- into the document

    def _end(self) -> int:
        return self.document.characterCount() - 1

    def _clear_open(self, cursor: QTextCursor) -> None:
        """An empty plain paragraph for the open block to stand in."""
        if not self._fresh:
            cursor.movePosition(_Move.End)
            at = cursor.position()  # a table leaves an empty paragraph after its end mark
            if at == 0 or self.document.characterAt(at - 1) != "\ufdd1":
                cursor.insertBlock(text_format(), QTextCharFormat())
            self._open_place, self._fresh = cursor.position(), True
        elif self._shown:
            cursor.setPosition(self._open_place)
            cursor.movePosition(_Move.End, _Mode.KeepAnchor)
            cursor.removeSelectedText()
        if self.panels and self.panels[-1].end < 0:
            self.panels.pop()
        self._lower(0)
        cursor.setBlockFormat(text_format())
        cursor.setBlockCharFormat(QTextCharFormat())
        self._shown = ""

    def _lower(self, top: int) -> None:
        """Room above the first line if that is code: Qt takes no top margin of a document's first paragraph."""
        frame = self.document.rootFrame().frameFormat()
        if self._open_place == 0 and frame.topMargin() != top:
            frame.setTopMargin(top)
            self.document.rootFrame().setFrameFormat(frame)

    def _insert_markdown(self, cursor: QTextCursor, source: str) -> list[int]:
        masked = mask(source, self._em)
        render(self._scratch, masked.text, self.colors)
        if masked.formulas:
            set_formulas(self._scratch, masked.formulas)
        text = self._scratch.toRawText()
        start = self._open_place
        cursor.insertFragment(QTextDocumentFragment(self._scratch))
        first, made = self.document.findBlock(start), self._scratch.firstBlock()
        if not first.text() and made.text():  # a list leaves the paragraph before it empty
            cursor.setPosition(start)
            cursor.deleteChar()
        if made.textList() is None:
            cursor.setPosition(start)
            cursor.setBlockFormat(made.blockFormat())
        places = align(held(masked.text), text)
        if masked.back is None:
            return [start + p for p in places]
        return [start + places[k] for k in masked.back]

    def _insert_plain(self, cursor: QTextCursor, source: str, at_end: bool = False) -> list[int]:
        cursor.movePosition(_Move.End)
        start = cursor.position()
        if not at_end and source.endswith("\n"):
            source = source[:-1] + "\u200b"
        cursor.insertText(source, QTextCharFormat())
        places = positions(source, start)
        if max(map(len, source.split("\n"))) > LONG_LINE or cursor.block().length() > LONG_LINE:
            cursor.insertBlock()
        return places

    def _insert_code(self, cursor: QTextCursor, source: str, kind: str, closed: bool) -> list[int]:
        fence = read_fence(source) if kind == "fence" else read_fence("```\n" + source)
        shift = 0 if kind == "fence" else 4
        start, end = fence.start - shift, (fence.end - shift) if closed else len(source)
        body = source[start:end]
        places = self._place_code(cursor, body, closed)
        goes_on = kind == "code" and bool(self.panels)
        language = self.panels[-1].language if goes_on else fence.language
        self.panels.append(Panel(self._open_place, places[-1] if closed else -1, language, body, goes_on))
        return [places[0]] * start + places + [places[-1]] * (len(source) - end)

    def _place_code(self, cursor: QTextCursor, body: str, closed: bool) -> list[int]:
        self._lower(CODE_TOP - 6 if self._open_place == 0 else 0)
        cursor.setPosition(self._open_place)
        cursor.setBlockFormat(code_format())
        cursor.setBlockCharFormat(self._code)
        cursor.insertText(body, self._code)
        if closed:
            bottom = QTextBlockFormat()
            bottom.setBottomMargin(CODE_BOTTOM + 8)
            cursor.mergeBlockFormat(bottom)
        cursor.setPosition(self._open_place)
        top = QTextBlockFormat()
        before = self.document.findBlock(self._open_place).previous()
        follows = before.isValid() and before.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence.value)
        top.setTopMargin(CODE_TOP + (CODE_BOTTOM if follows else 0))
        cursor.mergeBlockFormat(top)
        return positions(body, self._open_place)

    # ---------------------------------------------------------------------------------------- marks

    def run_at(self, place: int) -> Run | None:
        """The drafted piece that covers a document position."""
        for runs in (self.runs, self.open_runs):
            k = bisect_right(runs, place, key=lambda r: r.start) - 1
            if k >= 0 and runs[k].end > place:
                return runs[k]
        return None

    def lay_marks(self, start: int, end: int | None = None) -> None:
        """Lay tints and the room of rejected drafts over the paragraphs from `start` to `end`.

        Inside an edit block the layout follows by itself; else mark the range dirty afterwards.
        """
        self.formulas.ink = self.colors.text.name()
        last = self._end() if end is None else end
        if start > last:
            return
        block = self.document.findBlock(start)
        ghosts = sorted((g for g in self.standing if g.room > 0), key=lambda g: g.place)
        while block.isValid() and block.position() <= last:
            block.layout().setFormats(self._formats(block, ghosts))
            block = block.next()

    def _formats(self, block: QTextBlock, ghosts: list[Rejected]) -> list[QTextLayout.FormatRange]:
        base, length = block.position(), block.length()
        found = self._code_colors(block) if self.panels else []
        if self.show_drafts:
            for runs in (self.runs, self.open_runs):
                k = bisect_right(runs, base, key=lambda r: r.end)
                while k < len(runs) and runs[k].start < base + length:
                    run = runs[k]
                    first = max(run.start - base, 0)
                    found.append(_range(first, min(run.end - base, length) - first, self._tint(run.drafter)))
                    k += 1
        k = bisect_left(ghosts, base + 1, key=lambda g: g.place)
        while k < len(ghosts) and ghosts[k].place <= base + length - 1:
            place, room = ghosts[k].place, 0.0
            while k < len(ghosts) and ghosts[k].place == place:
                room += ghosts[k].room
                k += 1
            run_here = self.run_at(place - 1) if self.show_drafts else None
            gap = self._tint(run_here.drafter) if run_here is not None else QTextCharFormat()
            gap.setFontLetterSpacingType(QFont.SpacingType.AbsoluteSpacing)
            gap.setFontLetterSpacing(room)
            found.append(_range(place - 1 - base, 1, gap))
        k = bisect_right(self.hits, base, key=lambda hit: hit[1])
        while k < len(self.hits) and self.hits[k][0] < base + length:
            first, last = max(self.hits[k][0] - base, 0), min(self.hits[k][1] - base, length - 1)
            found.append(_range(first, max(0, last - first), self._hit_look(k == self.hit_now)))
            k += 1
        return found

    def _hit_look(self, now: bool) -> QTextCharFormat:
        look = QTextCharFormat()
        look.setBackground(self.colors.hit_now if now else self.colors.hit)
        look.setForeground(self.colors.on_hit_now if now else self.colors.on_hit)
        if now:
            look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
            look.setUnderlineColor(self.colors.on_hit_now)
        return look

    def _tint(self, drafter: str) -> QTextCharFormat:
        style = drafter_style(drafter, self.colors.dark)
        look = QTextCharFormat()
        look.setBackground(style.tint)
        look.setUnderlineStyle(style.line)
        look.setUnderlineColor(style.ink)
        return look

    def _code_colors(self, block: QTextBlock) -> list[QTextLayout.FormatRange]:
        """Colours of a line of code. What is open at its end is kept as the block's state for the next line."""
        k = bisect_right(self.panels, block.position(), key=lambda p: p.start) - 1
        panel = self.panels[k] if k >= 0 else None
        if panel is None or 0 <= panel.end < block.position():
            return []
        language = language_of(panel.language)
        if language is None:
            return []
        first = block.position() <= panel.start and not panel.goes_on
        spans, state = scan(block.text(), 0 if first else max(0, block.previous().userState()), language)
        block.setUserState(state)
        return [_range(start, length, self._ink(kind)) for start, length, kind in spans]

    def _ink(self, kind: int) -> QTextCharFormat:
        look = QTextCharFormat()
        look.setForeground(ink_of(kind, self.colors))
        return look


def _range(start: int, length: int, look: QTextCharFormat) -> QTextLayout.FormatRange:
    made = QTextLayout.FormatRange()
    made.start, made.length, made.format = start, length, look
    return made


def _joined(blocks: list[Block]) -> list[Block]:
    """Many blocks as few plain ones."""
    found: list[list[str]] = []
    size = LONGEST
    for block in blocks:
        if size + len(block.source) > LONGEST:
            found.append([])
            size = 0
        found[-1].append(block.source)
        size += len(block.source)
    return [Block("".join(sources), "plain") for sources in found]
