"""The messages of one chat, from the newest up, built as they come into sight, following the end when wanted.

Whether the end is followed is the person's choice alone: their wheel, keys and scroll bar decide it, never the text
that comes. Knows message rows and rounds; does not know the store or the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QFont, QPainter, QPaintEvent, QPalette, QPen, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QFrame, QScrollArea, QVBoxLayout, QWidget

from desktop.chat.message_view import MessageView
from desktop.context import Tokens
from desktop.theme import colors_of
from mlx_spec.events import Finished, PromptProgress, Round

if TYPE_CHECKING:
    from desktop.store import MessageRow

FIRST_BUILT = 30  # messages that are built when a chat is opened
MORE_BUILT = 15  # and at each reach for older ones
NEAR = 100  # pixels from the end within which the end is followed
WIDEST = 780  # pixels of text
IDLE_MS = 250


class JumpButton(QAbstractButton):
    """A round button with an arrow down."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(34, 34)
        self.setAccessibleName("Jump to the latest message")
        self.setToolTip("Jump to latest")
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = colors_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colors.accent if self.hasFocus() else colors.border, 1.5))
        painter.setBrush(colors.base)
        painter.drawEllipse(self.rect().adjusted(1, 1, -1, -1))
        painter.setPen(QPen(colors.text, 1.8))
        middle = self.rect().center()
        x, y = middle.x(), middle.y()
        painter.drawLine(x, y - 7, x, y + 7)
        painter.drawLine(x - 5, y + 2, x, y + 7)
        painter.drawLine(x + 5, y + 2, x, y + 7)


class Sheet(QWidget):
    """What is scrolled: the base colour, and a column of messages in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.column = QVBoxLayout(self)
        self.column.setSpacing(10)
        self.column.addStretch(1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        side = max(20, (self.width() - WIDEST) // 2)
        if self.column.contentsMargins().left() != side:
            self.column.setContentsMargins(side, 20, side, 8)
        super().resizeEvent(event)


class Transcript(QScrollArea):
    """The middle of the window."""

    edit_requested = Signal(int, str)
    branch_requested = Signal(int, int)
    continue_requested = Signal(int)
    quote_requested = Signal(str)
    regenerate_requested = Signal(int)
    restart_requested = Signal()
    tokens_requested = Signal(int)
    following_changed = Signal(bool)
    built = Signal(list)  # messages that were made now
    shown = Signal()  # another chat
    changed = Signal(int)  # a message that is complete now

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Conversation")
        self.rounds_provider: Callable[[int], list[Round]] | None = None
        self.count: Callable[[str], Tokens] | None = None  # the tokens of a text
        self._rows: list[MessageRow] = []  # that are not built yet, oldest first
        self._views: dict[int, MessageView] = {}  # in order
        self._branches: Mapping[int, Sequence[int]] = {}
        self._show_drafts = True
        self._show_rejected = True
        self._following = True
        self._font = QFont(self.font())
        if self._font.pointSizeF() > 0:
            self._font.setPointSizeF(self._font.pointSizeF() * 1.1)
        self._jump = JumpButton(self)
        self._jump.hide()
        self._jump.clicked.connect(self.jump_to_end)
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.setInterval(IDLE_MS)
        self._idle.timeout.connect(self._settle)
        self._live: int | None = None
        self._sheet = Sheet()
        self.setWidget(self._sheet)
        self._sheet.setAutoFillBackground(False)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Base)
        bar = self.verticalScrollBar()
        bar.actionTriggered.connect(self._person_scrolled)
        bar.sliderMoved.connect(self._person_scrolled)
        bar.rangeChanged.connect(self._range_changed)
        bar.valueChanged.connect(self._reach)

    # ------------------------------------------------------------------------------------- messages

    @property
    def following(self) -> bool:
        """Whether the view stays at the end as text comes."""
        return self._following

    @property
    def views(self) -> list[MessageView]:
        """The messages that are built, oldest first."""
        return list(self._views.values())

    @property
    def rows(self) -> list[MessageRow]:
        """All messages, built or not, oldest first."""
        return [*self._rows, *(view.row for view in self._views.values())]

    def view_of(self, message_id: int) -> MessageView | None:
        """A message's view, if it is built."""
        return self._views.get(message_id)

    def build_to(self, message_id: int) -> MessageView | None:
        """A message's view; it and all after it are built for that. None if the message is not shown here."""
        while message_id not in self._views and any(row.id == message_id for row in self._rows):
            self.build_older()
        return self._views.get(message_id)

    def set_branches(self, branches: Mapping[int, Sequence[int]]) -> None:
        """By message: it and those that stand beside it, for what is shown now and from now on."""
        self._branches = branches
        for number, view in self._views.items():
            view.set_branches(branches.get(number, ()))

    def top_of(self, view: MessageView) -> int:
        """How far below the upper edge a message begins."""
        return view.mapTo(self.viewport(), view.rect().topLeft()).y()

    def put(self, view: MessageView, top: int) -> None:
        """Scroll so that a message begins so far below the upper edge."""
        self.lay_out()
        self._set_following(False)
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + self.top_of(view) - top)
        self._set_following(bar.maximum() - bar.value() <= 1)

    def bring(self, view: MessageView, rect: QRect) -> None:
        """Bring a piece of a message into sight, a third from the top; the end is not followed any more."""
        self.lay_out()
        top = view.view.viewport().mapTo(self._sheet, rect.topLeft()).y()
        bar, high = self.verticalScrollBar(), self.viewport().height()
        self._set_following(False)
        if not bar.value() + 40 <= top <= bar.value() + high - rect.height() - 40:
            bar.setValue(top - high // 3)
        self._set_following(bar.maximum() - bar.value() <= 1)

    def show_messages(self, rows: Sequence[MessageRow]) -> None:
        """Show another chat, at its end; only its last messages are built now."""
        fresh = Sheet()
        self._views = {}
        self._rows = list(rows[:-FIRST_BUILT])
        old, self._sheet = self.takeWidget(), fresh
        if old is not None:
            old.deleteLater()
        for row in rows[-FIRST_BUILT:]:
            self._place(self._make(row), fresh.column.count() - 1)
        self._mark_last()
        self._set_following(True)
        self.setWidget(fresh)
        fresh.setAutoFillBackground(False)
        self.jump_to_end()
        self.shown.emit()

    def add_message(self, row: MessageRow) -> None:
        """Add a message at the end. One's own message is always brought into sight."""
        if row.id in self._views:
            return
        self._place(self._make(row), self._sheet.column.count() - 1)
        self._mark_last()
        if row.role == "user":
            self._set_following(True)
        self._keep_end()
        self.built.emit([self._views[row.id]])

    def append_rounds(self, message_id: int, rounds: Sequence[Round]) -> None:
        """Add what the rounds of one frame wrote; a message that is not shown is left alone."""
        view = self._views.get(message_id)
        if view is None or not rounds:
            return
        view.append_rounds(rounds)
        self._live = message_id
        self._idle.start()

    def set_progress(self, message_id: int, progress: PromptProgress) -> None:
        """Show how far the prompt is read in place of the reply."""
        view = self._views.get(message_id)
        if view is not None:
            view.set_progress(progress)

    def finish(self, row: MessageRow, stats: Finished | None) -> None:
        """A reply is complete or was ended. The view does not move."""
        view = self._views.get(row.id)
        if view is not None:
            view.finish(row, stats)
            self.changed.emit(row.id)

    def set_show_drafts(self, shown: bool) -> None:
        """Tint accepted drafts, or do not."""
        self._show_drafts = shown
        for view in self._views.values():
            view.set_show_drafts(shown)

    def set_show_rejected(self, shown: bool) -> None:
        """Show rejected drafts as they fail, or do not."""
        self._show_rejected = shown
        for view in self._views.values():
            view.set_show_rejected(shown)

    def _make(self, row: MessageRow) -> MessageView:
        view = MessageView(row, self._font, self._sheet, self.count)
        view.rounds_provider = self._rounds
        view.set_branches(self._branches.get(row.id, ()))
        view.edit_requested.connect(self.edit_requested)
        view.branch_requested.connect(self.branch_requested)
        view.continue_requested.connect(self.continue_requested)
        view.quote_requested.connect(self.quote_requested)
        view.regenerate_requested.connect(self.regenerate_requested)
        view.restart_requested.connect(self.restart_requested)
        view.tokens_requested.connect(self.tokens_requested)
        view.set_show_drafts(self._show_drafts)
        view.set_show_rejected(self._show_rejected)
        return view

    def recount(self) -> None:
        """Token counts may be known better now."""
        for view in self._views.values():
            view.recount()

    def _rounds(self, message_id: int) -> list[Round]:
        return self.rounds_provider(message_id) if self.rounds_provider is not None else []

    def _place(self, view: MessageView, index: int) -> None:
        self._sheet.column.insertWidget(index, view)
        self._views[view.row.id] = view
        view.show()

    def _mark_last(self) -> None:
        views = self.views
        for view in views[-3:]:
            view.set_last(view is views[-1])

    def _settle(self) -> None:
        view = self._views.get(self._live) if self._live is not None else None
        if view is not None:
            view.settle()

    # -------------------------------------------------------------------------------- older messages

    def _reach(self, value: int) -> None:
        if self._rows and value < self.viewport().height() // 2 and self.verticalScrollBar().maximum() > 0:
            QTimer.singleShot(0, self, self.build_older)

    def build_older(self) -> bool:
        """Build some older messages above; what is in sight stays where it is. False if there were none."""
        if not self._rows:
            return False
        older, self._rows = self._rows[-MORE_BUILT:], self._rows[:-MORE_BUILT]
        anchor = next(iter(self._views.values()), None)
        before = anchor.y() if anchor is not None else 0
        made = [self._make(row) for row in older]
        for k, view in enumerate(made):
            self._sheet.column.insertWidget(k, view)
            view.show()
        self._views = {view.row.id: view for view in made} | self._views
        self.lay_out()
        if anchor is not None:
            bar = self.verticalScrollBar()
            bar.setValue(bar.value() + anchor.y() - before)
        self.built.emit(made)
        return True

    def lay_out(self) -> None:
        """Bring the layout up to date now."""
        # Heights come from the documents, which know theirs only once they are as wide as the column.
        for _ in range(2):
            self._sheet.column.activate()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)

    # ------------------------------------------------------------------------------------ the end

    def jump_to_end(self) -> None:
        """Go to the newest message and follow it from here on."""
        self._set_following(True)
        self.lay_out()
        self._keep_end()

    def _keep_end(self) -> None:
        if self._following:
            bar = self.verticalScrollBar()
            bar.setValue(bar.maximum())

    def _range_changed(self, low: int, high: int) -> None:
        self._keep_end()

    def _person_scrolled(self, action: int = 0) -> None:
        bar = self.verticalScrollBar()
        self._set_following(bar.maximum() - bar.sliderPosition() <= NEAR)

    def focusNextPrevChild(self, next: bool) -> bool:
        moved = super().focusNextPrevChild(next)
        self._person_scrolled()  # what has the focus was brought into sight
        return moved

    def _set_following(self, following: bool) -> None:
        if following != self._following:
            self._following = following
            self.following_changed.emit(following)
        self._jump.setVisible(not following)
        if not following:
            self._place_jump()

    def _place_jump(self) -> None:
        area = self.viewport().geometry()
        self._jump.move(area.center().x() - self._jump.width() // 2, area.bottom() - self._jump.height() - 12)
        self._jump.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_jump()
        self._keep_end()
