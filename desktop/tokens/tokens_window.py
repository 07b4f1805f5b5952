"""The Tokens window: one reply round by round, live or old, and a replay of it at its real pace.

Is given a reply and its rounds; knows no store, no engine and no other window.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QFont, QKeySequence, QShortcut
from PySide6.QtWidgets import QCheckBox, QDialog, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from desktop.chat.words import stats_line
from desktop.sidebar.stats import seconds_text
from desktop.store import MessageRow
from desktop.theme import colors_of
from desktop.tokens.legend import Legend
from desktop.tokens.pieces import held, times
from desktop.tokens.player import Player
from desktop.tokens.rows_view import RowsView
from desktop.tokens.timeline import Timeline
from mlx_spec.events import Finished, Round

REFRESH_MS = 100
SIZE = QSize(860, 640)
ASKED = 90  # characters of the question in the head


class TokensWindow(QDialog):
    """Rounds, legend and replay of one reply at a time."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Tokens")
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint, True)
        self.message_id: int | None = None
        self.timeline = Timeline()
        self._live = False
        self._drafters: dict[str, None] = {}  # of this reply, in the order in which they came
        self._pending: list[Round] = []
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(REFRESH_MS)
        self._soon.timeout.connect(self.catch_up)
        self._asked = QLabel()
        self._asked.setTextFormat(Qt.TextFormat.PlainText)
        bold = QFont(self._asked.font())
        bold.setBold(True)
        self._asked.setFont(bold)
        self._figures = QLabel()
        self._figures.setTextFormat(Qt.TextFormat.PlainText)
        for label in (self._asked, self._figures):
            label.setMinimumWidth(1)
        self.legend = Legend()
        self.rows = RowsView()
        self.rows.picked.connect(self._pick)
        self.player = Player()
        self.player.step_back = lambda seconds: self.timeline.previous(seconds)
        self.player.step_on = lambda seconds: self.timeline.next(seconds)
        self.player.moved.connect(self._show)
        self.follow = QCheckBox("Follow the reply")
        self.follow.setToolTip("Show what comes as it comes; playing or stepping lets go of it")
        self.follow.toggled.connect(self._follow)
        self._now = QLabel()
        self._now.setTextFormat(Qt.TextFormat.PlainText)
        self._now.setMinimumWidth(1)
        self._now.setAccessibleName("The pass that is marked")

        foot = QHBoxLayout()
        foot.addWidget(self._now, 1)
        foot.addWidget(self.follow)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(8)
        column.addWidget(self._asked)
        column.addWidget(self._figures)
        column.addWidget(self.legend)
        column.addWidget(self.rows, 1)
        column.addLayout(foot)
        column.addWidget(self.player)
        for keys, act in (
            (Qt.Key.Key_Space, self.player.toggle),
            (Qt.Key.Key_Left, self.player.back),
            (Qt.Key.Key_Right, self.player.on),
        ):
            QShortcut(QKeySequence(keys), self, activated=act)  # type: ignore[call-overload]
        self._recolor()
        self.resize(SIZE)  # unasked, Qt makes it two thirds of the screen at most

    def sizeHint(self) -> QSize:
        return SIZE

    # ------------------------------------------------------------------------------------------- content

    def show_reply(self, row: MessageRow, rounds: Sequence[Round], asked: str = "") -> None:
        """Show a reply from its rounds so far; one that is being written is followed."""
        self.player.pause()
        self.message_id = row.id
        self.timeline = Timeline()
        self._drafters, self._pending = {}, []
        self.rows.clear()
        first = next((line.strip() for line in asked.splitlines() if line.strip()), "")
        self._asked.setText(first if len(first) <= ASKED else first[: ASKED - 1].rstrip() + "…")
        self._asked.setVisible(bool(first))
        self._live = row.state == "writing"
        self.follow.setVisible(self._live)
        self.follow.setChecked(self._live)
        self._add(rounds)
        self._settle(row, row.stats)
        self.player.at = self.player.total
        self.player.set_total(self.timeline.total)
        self.rows.show_all()
        self._tell(len(rounds))

    def add_rounds(self, message_id: int, rounds: Sequence[Round]) -> None:
        """Rounds of a reply that is being written, shown within a tenth of a second; those of others are let be."""
        if message_id != self.message_id or not self._live or not rounds:
            return
        self._pending.extend(rounds)
        if not self._soon.isActive():
            self._soon.start()

    def catch_up(self) -> None:
        """Show what came and is not shown yet."""
        rounds, self._pending = self._pending, []
        if not rounds:
            return
        self._add(rounds)
        if self.follow.isChecked():
            self.player.at = self.timeline.total
        self.player.set_total(self.timeline.total)
        self._head(None)
        if self.follow.isChecked():
            self.rows.show_all()
            self._tell(len(self.timeline.rounds))

    def finish(self, row: MessageRow, finished: Finished | None) -> None:
        """The reply is over. What is in sight stays."""
        if row.id != self.message_id:
            return
        self.catch_up()
        self._live = False
        self.follow.hide()
        self._settle(row, finished or row.stats)

    def _add(self, rounds: Sequence[Round]) -> None:
        self.timeline.add(rounds)
        self.rows.add_rounds(rounds)
        self._drafters |= {r.drafter: None for r in rounds if r.drafter is not None and r.drafted}
        self.legend.set_drafters(tuple(self._drafters))

    def _settle(self, row: MessageRow, stats: Finished | None) -> None:
        self._head(stats)
        if not self._live and stats is not None:
            was_end = self.player.at_end
            self.timeline.stretch(stats.decode_s)
            if was_end:
                self.player.at = self.timeline.total
        self.player.set_total(self.timeline.total)

    def _head(self, stats: Finished | None) -> None:
        line = self.timeline
        words = stats_line(stats)
        if not words:
            count = line.count(len(line.rounds))
            words = f"{count:,} tokens in {seconds_text(line.total)}"
            if not line.rounds:
                words = "The rounds of this reply were not kept." if not self._live else "Nothing is written yet."
        drafted = sum(len(r.drafted) for r in line.rounds)
        passes = len(line.rounds)
        more = f"; {passes:,} passes, {drafted:,} tokens drafted" if passes else ""
        self._figures.setText(words + more)
        self._figures.setToolTip(words + more)

    # -------------------------------------------------------------------------------------------- replay

    def _pick(self, rounds: int) -> None:
        self.player.pause()
        self.player.seek(self.timeline.end_of(rounds))

    def _show(self, seconds: float) -> None:
        if self.follow.isChecked() and not self.player.at_end:
            self.follow.setChecked(False)
        moment = self.timeline.at(seconds)
        self.rows.show_moment(moment)
        self._tell(moment.rounds, moment.waiting)

    def _follow(self, on: bool) -> None:
        if on and self._live:
            self.player.pause()
            self.player.at = self.timeline.total
            self.player.set_total(self.timeline.total)
            self.rows.show_all()
            self._tell(len(self.timeline.rounds))

    def _tell(self, rounds: int, waiting: bool = False) -> None:
        """The line under the rows: which pass, what it did, where its time went."""
        line = self.timeline
        if not line.rounds:
            self._now.setText("")
            return
        if waiting:
            r = line.rounds[rounds]
            self._now.setText(f"Pass {r.index + 1}: {len(r.drafted)} drafts are being checked")
        elif rounds:
            r = line.rounds[rounds - 1]
            count = line.count(rounds)
            words = f"{count:,} tokens. Pass {r.index + 1}: {held(r)}; {times(r)}"
            self._now.setText(words)
            self._now.setToolTip(f"{words}\n{r.why}" if r.why else words)
        else:
            self._now.setText("The prompt is read; the first pass begins")

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_now"):
            self._recolor()

    def _recolor(self) -> None:
        muted = colors_of(self).muted
        for label in (self._figures, self._now):
            palette = label.palette()
            if palette.color(label.foregroundRole()) != muted:
                palette.setColor(label.foregroundRole(), muted)
                label.setPalette(palette)

    def hideEvent(self, event: object) -> None:
        self.player.pause()
        super().hideEvent(event)  # type: ignore[arg-type]
