"""Shows one message's document: as tall as its text, code panels and rejected drafts painted over it.

What is copied or read aloud is the document alone; rejected drafts are only ever painted. Knows the typesetter and
Qt; does not know messages, chats or the engine.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from itertools import groupby

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QRect, QRectF, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QDesktopServices,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextCursor,
    QTextOption,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QToolButton, QToolTip, QWidget

from desktop.chat.align import align, positions
from desktop.chat.formulas import em_of, held, mask, plain_text
from desktop.chat.press import press
from desktop.chat.render import CODE_TOP, recolor
from desktop.chat.typesetter import Panel, Rejected, Typesetter
from desktop.theme import colors_of, drafter_style, drafter_title
from desktop.words import Term, places

HOLD_S, FOLD_S, HURRY_S = 0.8, 0.4, 0.12  # a rejected draft stands, folds away, or makes room for a newer one
VISIBLE = 3  # rejected drafts that stand in the line at a time
GHOST_CHARS = 24
TICK_MS = 33
_PASSED_ON = {
    Qt.Key.Key_PageUp,
    Qt.Key.Key_PageDown,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_Space,
}


def ghost_text(text: str) -> str:
    """A rejected draft as it is painted: on one line, its white space seen, not too long."""
    shown = text.replace("\r", "").replace("\n", "↵").replace("\t", "⇥")
    if not shown.strip():
        shown = shown.replace(" ", "␣")
    return shown if len(shown) <= GHOST_CHARS else shown[: GHOST_CHARS - 1] + "…"


class DocumentView(QTextBrowser):
    """A read-only text without a frame whose height is its document's height."""

    height_changed = Signal()

    def __init__(self, parent: QWidget | None = None, font: QFont | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self.setUndoRedoEnabled(False)
        self.setOpenLinks(False)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
            | Qt.TextInteractionFlag.LinksAccessibleByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        document = self.document()
        document.setDocumentMargin(0)
        option = QTextOption()
        option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        document.setDefaultTextOption(option)
        self.anchorClicked.connect(open_link)
        self.show_rejected = True
        self.tell: Callable[[int], str] | None = None  # what more is known of a character of the source
        self._aligned: tuple[str, list[int]] = ("", [0])  # a source, and where its characters stand
        self._ghosts: list[tuple[Rejected, float, float]] = []  # with its full room, and when it goes
        self._buttons: list[QToolButton] = []
        self._painted_ghosts: list[tuple[QRectF, Rejected]] = []
        self._animation = QTimer(self)
        self._animation.setInterval(TICK_MS)
        self._animation.timeout.connect(self._fold)
        self._still = False
        self.typesetter = Typesetter(document, font or self.font(), colors_of(self))
        document.documentLayout().documentSizeChanged.connect(self._fit)
        self._setting = QTimer(self)  # formulas that came are laid out together
        self._setting.setSingleShot(True)
        self._setting.setInterval(TICK_MS)
        self._setting.timeout.connect(self._set_formulas)
        press().pressed.connect(self._formula_came)

    # ------------------------------------------------------------------------------------ content

    def reset(self) -> None:
        """Start over with an empty document."""
        old = self.typesetter
        self._ghosts.clear()
        self._still = False
        self.typesetter.panels.clear()
        self.document().clear()
        self.typesetter = Typesetter(self.document(), self.document().defaultFont(), colors_of(self))
        self.typesetter.show_drafts, self.typesetter.hits = old.show_drafts, old.hits
        self.typesetter.hit_now = old.hit_now
        for button in self._buttons:
            button.hide()

    def add_ghosts(self, ghosts: list[Rejected]) -> None:
        """Let rejected drafts stand in the line for a moment. Call before they are given to the typesetter."""
        if not self.show_rejected:
            return
        now = time.monotonic()
        metrics = QFontMetricsF(self._ghost_font())
        for ghost in ghosts[-VISIBLE:]:
            ghost.room = metrics.horizontalAdvance(ghost_text(ghost.text)) + 8
            self._ghosts.append((ghost, ghost.room, now + HOLD_S))
            self.typesetter.standing.append(ghost)
        for k, (ghost, room, leaves) in enumerate(self._ghosts[:-VISIBLE]):
            self._ghosts[k] = (ghost, room, min(leaves, now - FOLD_S + HURRY_S))
        if self._ghosts and not self._animation.isActive():
            self._animation.start()

    def set_still_ghosts(self, shown: bool) -> None:
        """Show every rejected draft of a finished message in its place, or none."""
        self._ghosts.clear()
        self._still = shown
        metrics = QFontMetricsF(self._ghost_font())
        for ghost in self.typesetter.rejected:
            wide = metrics.horizontalAdvance(ghost_text(ghost.text)) + 8
            ghost.room = wide if shown and ghost.place > 0 else 0.0
        self.typesetter.standing = list(self.typesetter.rejected) if shown else []
        self.relay()

    def set_show_rejected(self, shown: bool) -> None:
        """Whether rejected drafts stand in the line while a reply comes."""
        self.show_rejected = shown
        if not shown:
            self._still = False
            self._ghosts.clear()
            for ghost in self.typesetter.rejected:
                ghost.room = 0.0
            self.typesetter.standing = []
            self.relay()

    def set_show_drafts(self, shown: bool) -> None:
        """Whether accepted drafts are tinted and underlined."""
        if self.typesetter.show_drafts != shown:
            self.typesetter.show_drafts = shown
            self.relay()

    def places_of(self, wanted: list[Term]) -> list[tuple[int, int]]:
        """Where terms stand in what is shown, as document positions."""
        text = self.document().toRawText()
        at = positions(text)
        return [(at[start], at[end]) for start, end in places(text, wanted)]

    def set_hits(self, hits: list[tuple[int, int]], now: int = -1) -> None:
        """Mark what a search found, and which place of it is looked at."""
        if (self.typesetter.hits, self.typesetter.hit_now) != (hits, now):
            self.typesetter.hits, self.typesetter.hit_now = hits, now
            self.relay()

    def _formula_came(self) -> None:
        if self.typesetter.formulas.waiting and not self._setting.isActive():
            self._setting.start()

    def _set_formulas(self) -> None:
        for place in self.typesetter.formulas.came(self.document()):
            self.document().markContentsDirty(place, 1)
        self.viewport().update()

    def relay(self) -> None:
        """Lay all marks anew."""
        end = self.document().characterCount()
        self.typesetter.lay_marks(0, end)
        self.document().markContentsDirty(0, end)

    def _fold(self) -> None:
        now = time.monotonic()
        keep: list[tuple[Rejected, float, float]] = []
        for ghost, room, leaves in self._ghosts:
            left = 1.0 if now < leaves else max(0.0, 1.0 - (now - leaves) / FOLD_S)
            fresh = room * left * left
            if fresh != ghost.room:
                ghost.room = fresh
                at = max(0, ghost.place - 1)
                self.typesetter.lay_marks(at, at)
                self.document().markContentsDirty(at, 1)
            if left > 0:
                keep.append((ghost, room, leaves))
        self._ghosts = keep
        if not self._still:
            self.typesetter.standing = [ghost for ghost, _, _ in keep]
        if not keep:
            self._animation.stop()
        self.viewport().update()

    # ------------------------------------------------------------------------------------ geometry

    def _fit(self) -> None:
        height = max(1, math.ceil(self.document().size().height()))
        if height != self.height():
            self.setFixedHeight(height)
            self.height_changed.emit()
        if self.typesetter.panels:
            # While text comes only the end moves, and laying out every button would cost more than the text.
            self.place_buttons(latest=3 if self._ghosts or self.typesetter.writing else None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        if event.oldSize().width() != event.size().width() and self.typesetter.panels:
            self.place_buttons()

    def panel_rect(self, panel: Panel) -> QRectF:
        """The ground of a code block in the viewport."""
        document, layout = self.document(), self.document().documentLayout()
        end = panel.end if panel.end >= 0 else document.characterCount() - 1
        first = layout.blockBoundingRect(document.findBlock(panel.start))
        last = layout.blockBoundingRect(document.findBlock(end))
        line = document.findBlock(panel.start).layout().lineAt(0)
        top = first.top() + (line.y() if line.isValid() else 0.0)
        return QRectF(0, top - CODE_TOP + 6, self.viewport().width(), last.bottom() - top + CODE_TOP + 4)

    def place_buttons(self, latest: int | None = None) -> None:
        """Put a Copy button at the top right of each code block, or only of the `latest` few."""
        panels = self.typesetter.panels
        while len(self._buttons) < len(panels):
            button = QToolButton(self.viewport())
            button.setText("Copy")
            button.setAccessibleName("Copy code")
            button.setToolTip("Copy this code")
            button.setAutoRaise(True)
            button.setCursor(Qt.CursorShape.ArrowCursor)
            button.clicked.connect(partial(self._copy_code, len(self._buttons)))
            font = QFont(self.font())
            font.setPointSizeF(max(7.0, font.pointSizeF() * 0.85))
            button.setFont(font)
            self._buttons.append(button)
        start = 0 if latest is None else max(0, min(len(panels), len(self._buttons)) - latest)
        for k, button in enumerate(self._buttons[start:], start):
            if k >= len(panels):
                button.hide()
                continue
            rect = self.panel_rect(panels[k]).toRect()
            size = button.sizeHint()
            at = QPoint(rect.right() - size.width() - 5, rect.top() + 2)
            if button.pos() != at or button.size() != size:
                button.setGeometry(QRect(at, size))
            if button.isHidden():
                button.show()

    def _copy_code(self, k: int, _checked: bool = False) -> None:
        QGuiApplication.clipboard().setText(self.typesetter.panels[k].code)
        button = self._buttons[k]
        self._name_button(button, "Copied")
        QTimer.singleShot(1200, button, partial(self._name_button, button, "Copy"))

    def _name_button(self, button: QToolButton, text: str) -> None:
        button.setText(text)
        self.place_buttons()

    # ------------------------------------------------------------------------------------ painting

    def _ghost_font(self) -> QFont:
        font = QFont(self.document().defaultFont())
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.92))
        return font

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.typesetter.panels:
            self._paint_panels(event)
        super().paintEvent(event)
        if self._ghosts or self._still:
            self._paint_ghosts(event)

    def _paint_panels(self, event: QPaintEvent) -> None:
        colors = self.typesetter.colors
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = QFont(self.font())
        font.setPointSizeF(max(7.0, font.pointSizeF() * 0.85))
        painter.setFont(font)
        layout, panels = self.document().documentLayout(), self.typesetter.panels
        seen = QRectF(event.rect())
        exact = Qt.HitTestAccuracy.FuzzyHit
        first = layout.hitTest(QPointF(0, seen.top() - CODE_TOP), exact)
        last = layout.hitTest(QPointF(seen.width(), seen.bottom() + CODE_TOP), exact)
        for panel in panels[max(0, bisect_right(panels, first, key=lambda p: p.start) - 1) :]:
            if panel.start > last >= 0:
                break
            rect = self.panel_rect(panel)
            if not rect.intersects(QRectF(event.rect())):
                continue
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.panel)
            painter.drawRoundedRect(rect, 8, 8)
            painter.setPen(colors.muted)
            label = QRectF(rect.left() + 14, rect.top() + 4, rect.width() - 120, 22)
            painter.drawText(label, Qt.AlignmentFlag.AlignVCenter, panel.language or "code")

    def _paint_ghosts(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        font = self._ghost_font()
        metrics = QFontMetricsF(font)
        painter.setFont(font)
        standing = sorted((g for g in self.typesetter.standing if g.room > 2 and g.place > 0), key=lambda g: g.place)
        visible = event.rect().adjusted(-4, -40, 4, 40)
        self._painted_ghosts.clear()
        for _, group in groupby(standing, key=lambda g: g.place):
            together = list(group)
            rect = self._ghost_rect(together[0].place, sum(g.room for g in together))
            if not rect.intersects(QRectF(visible)):
                continue
            left = rect.left()
            for ghost in together:
                box = QRectF(left + 1, rect.top(), ghost.room - 2, rect.height())
                left += ghost.room
                self._paint_ghost(painter, metrics, box, ghost)
                self._painted_ghosts.append((box, ghost))

    def _ghost_rect(self, place: int, room: float) -> QRectF:
        """Where the room is that the letter spacing of the character before `place` holds open."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(min(place - 1, self.document().characterCount() - 1))
        spot = self.cursorRect(cursor)
        here = cursor.position() - cursor.block().position()
        line = cursor.block().layout().lineForTextPosition(here)
        if not line.isValid():
            return QRectF()
        ahead = float(line.cursorToX(here + 1)[0] - line.cursorToX(here)[0])  # type: ignore[index]
        if ahead < 0:  # the text runs to the left, and the room stands at the right of the character
            left = spot.x() - room
        else:
            left = spot.x() + ahead - (room if ahead >= room else 0.0)
        return QRectF(left, spot.top(), room, spot.height())

    def _paint_ghost(self, painter: QPainter, metrics: QFontMetricsF, box: QRectF, ghost: Rejected) -> None:
        text = ghost_text(ghost.text)
        ink = drafter_style(ghost.drafter, self.typesetter.colors.dark).ink
        painter.save()
        painter.setClipRect(box)
        painter.setOpacity(min(1.0, ghost.room / (metrics.horizontalAdvance(text) + 8)))
        painter.setPen(QPen(ink, 1.0))
        baseline = box.top() + (box.height() + metrics.ascent() - metrics.descent()) / 2
        painter.drawText(QPointF(box.left() + 3, baseline), text)
        strike = round(baseline - metrics.strikeOutPos())
        painter.drawLine(round(box.left() + 1), strike, round(box.right() - 1), strike)
        painter.restore()

    # ------------------------------------------------------------------------------ what a person does

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.PaletteChange:
            self._recolor()
        return super().event(event)

    def _recolor(self) -> None:
        if not hasattr(self, "typesetter"):
            return
        old, fresh = self.typesetter.colors, colors_of(self)
        if old != fresh:
            self.typesetter.colors = fresh
            recolor(self.document(), fresh)
            self.relay()

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel:
            event.ignore()  # scrolling is the transcript's
            return False
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.words_at(event.pos())
            if text:
                QToolTip.showText(event.globalPos(), text, self)
                return True
        return super().viewportEvent(event)

    def words_at(self, point: QPoint) -> str:
        """Who proposed the text under `point` and what was rejected there, in words; "" if nothing was."""
        for rect, ghost in self._painted_ghosts:
            if rect.contains(point):
                return f"{drafter_title(ghost.drafter)} proposed “{ghost_text(ghost.text)}”: rejected"
        place = self.place_at(point)
        if self.tell is not None and self.typesetter.show_drafts and place >= 0:
            more = self.tell(self.source_at(place))
            if more:
                return more
        place = self.cursorForPosition(point).position()
        lines = []
        run = self.typesetter.run_at(place) if self.typesetter.show_drafts else None
        if run is not None:
            style = drafter_style(run.drafter, self.typesetter.colors.dark)
            lines.append(f"{style.title} proposed this ({style.line_words})")
        near = [g for g in self.typesetter.rejected if abs(g.place - place) <= 1]
        if self.typesetter.show_drafts:
            lines += [f"Rejected here: “{ghost_text(g.text)}” ({drafter_title(g.drafter)})" for g in near[:3]]
        return "\n".join(lines)

    def place_at(self, point: QPoint) -> int:
        """The document position of the character under `point`, -1 where there is none."""
        return self.document().documentLayout().hitTest(QPointF(point), Qt.HitTestAccuracy.ExactHit)

    def source_at(self, place: int) -> int:
        """The character of the source that stands at a document position. Exact but for a slip at a mark."""
        source = self.typesetter.source
        if self._aligned[0] != source:
            masked = mask(source, em_of(self.document().defaultFont()))
            places = align(held(masked.text), self.document().toRawText())
            self._aligned = (source, places if masked.back is None else [places[k] for k in masked.back])
        return max(0, bisect_right(self._aligned[1], place) - 1)

    def createMimeDataFromSelection(self) -> QMimeData:
        data = QMimeData()
        cursor = self.textCursor()
        whole = cursor.selectionStart() == 0 and cursor.selectionEnd() >= self.document().characterCount() - 1
        if whole:
            data.setText(self.typesetter.source)
            data.setData("text/markdown", self.typesetter.source.encode("utf-8", "replace"))
        else:
            data.setText(plain_text(self.document(), cursor.selectionStart(), cursor.selectionEnd()))
        return data

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        """Nothing is ever fetched or read because a text names it."""
        return None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        plain = event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
        if plain and event.key() in _PASSED_ON:
            event.ignore()  # scrolling is the transcript's
            return
        super().keyPressEvent(event)


def open_link(url: QUrl) -> None:
    """Open a link that was clicked, if it goes to the web or to mail; anything else is let be."""
    if url.scheme().lower() in ("http", "https", "mailto"):
        QDesktopServices.openUrl(url)
