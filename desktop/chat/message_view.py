"""One message of the transcript: what the person wrote in a bubble, a reply in plain flow, and what can be done.

Knows message rows and rounds; does not know the store, the engine or the other messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QFont, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QSizePolicy, QVBoxLayout, QWidget

from desktop.attachments import split
from desktop.branches import can_go_on
from desktop.chat.chips import ChipRow
from desktop.chat.document_view import DocumentView
from desktop.chat.edit_box import EditBox
from desktop.chat.footer import Footer
from desktop.chat.formulas import plain_text
from desktop.chat.message_parts import Awake, Bubble
from desktop.chat.parter import Parted, Parter
from desktop.chat.thought import ThoughtView
from desktop.chat.typesetter import Rejected
from desktop.chat.words import progress_line, rejected_of, state_line, stats_line
from desktop.context import Tokens
from desktop.theme import mute
from desktop.tokens.pieces import describe_token, place_of
from mlx_spec.events import Finished, PromptProgress, Round, Span

if TYPE_CHECKING:
    from desktop.store import MessageRow

SHOWN = 200_000  # characters; more of one message is not laid out, only copied
BUBBLE = 0.78  # of the width, at most


class MessageView(Awake):
    """A message and the row under it."""

    edit_requested = Signal(int, str)
    branch_requested = Signal(int, int)  # this message, and the one beside it that is wanted
    continue_requested = Signal(int)
    quote_requested = Signal(str)
    regenerate_requested = Signal(int)
    restart_requested = Signal()
    tokens_requested = Signal(int)

    def __init__(
        self,
        row: MessageRow,
        font: QFont | None = None,
        parent: QWidget | None = None,
        count: Callable[[str], Tokens] | None = None,
    ) -> None:
        super().__init__(parent)
        self.row = row
        self._count = count
        self.is_user = row.role == "user"
        self.rounds_provider: Callable[[int], list[Round]] | None = None
        self._rounds: list[Round] | None = None if row.text else []  # as far as they were asked for
        self._hovered = False
        self._last = False
        self._length = 0
        self._source: list[str] = []
        self._parter = Parter()
        self.thought: ThoughtView | None = None
        self._editor: EditBox | None = None
        self.view = DocumentView(self, font)
        self.view.tell = None if self.is_user else lambda at: self._tell(self._parter.answer_from + at)
        self.view.setAccessibleName("You wrote" if self.is_user else f"Reply by {row.model or 'the model'}")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        small = QFont(self.font())
        small.setPointSizeF(max(7.0, small.pointSizeF() * 0.88))
        self._small = small
        self.status = QLabel(self)
        self.bar = QProgressBar(self)
        self._build_footer()
        if self.is_user:
            self._build_bubble(layout)
        else:
            self._build_reply(layout)
        layout.addWidget(self._footer)
        self._fill(row)
        self._recolor()

    @property
    def awake(self) -> bool:
        """Whether the buttons under the message are seen."""
        return self._hovered or self._last or self.row.state in ("failed", "cut")

    # --------------------------------------------------------------------------------------- building

    def _build_bubble(self, layout: QVBoxLayout) -> None:
        self.status.hide()
        self.bar.hide()
        self._bubble = Bubble(self)
        inside = QVBoxLayout(self._bubble)
        inside.setContentsMargins(14, 8, 14, 8)
        self.chips = ChipRow(self._bubble)
        self.chips.count = self._count
        inside.addWidget(self.chips)
        inside.addWidget(self.view)
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(self._bubble)
        layout.addLayout(across)

    def _build_reply(self, layout: QVBoxLayout) -> None:
        self.header = QLabel(self.row.model.rstrip("/").rpartition("/")[2] or "Reply", self)
        self.header.setToolTip(self.row.model)
        bold = QFont(self._small)
        bold.setWeight(QFont.Weight.DemiBold)
        self.header.setFont(bold)
        self.header.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setWordWrap(True)
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(4)
        self.bar.setMaximumWidth(240)
        self.bar.setAccessibleName("Prompt read")
        self.bar.hide()
        # The figures stand beside the name, so that nothing moves when a reply ends; in a narrow window they
        # give way before anything else does.
        self.stats.setMinimumWidth(1)
        self.stats.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        top = QHBoxLayout()
        top.setSpacing(10)
        top.addWidget(self.header)
        top.addWidget(self.stats, 1)
        layout.addLayout(top)
        layout.addWidget(self.view)
        layout.addWidget(self.status)
        layout.addWidget(self.bar)

    def _build_footer(self) -> None:
        self.stats = QLabel(self)
        self.stats.setFont(self._small)
        self._footer = footer = Footer(self, self._small, right=self.is_user)
        self.branch = footer.branch
        self.branch.chosen.connect(lambda wanted: self.branch_requested.emit(self.row.id, wanted))
        what = "message" if self.is_user else "reply"
        run = "Edit this message and run again" if self.is_user else "Edit this reply; it is kept, as a branch"
        self.restart_button = footer.add("Restart engine", "Start the engine again", self.restart_requested.emit)
        self.continue_button = footer.add("Continue", "Write on where this reply ended", self.go_on)
        self.regenerate_button = footer.add("Regenerate", "Write this reply again", self._regenerate)
        self.copy_button = footer.add("Copy", "Copy this message", self.copy_text)
        self.markdown_button = footer.add("Copy as Markdown", "Copy this reply as Markdown", self.copy_markdown)
        self.quote_button = footer.add("Quote", f"Quote this {what}, or what is selected in it", self.quote)
        self.edit_button = footer.add("Edit", run, self.edit)
        self.drafts_button = footer.add("Drafts", "Show what was drafted and rejected here", None)
        self.drafts_button.setCheckable(True)
        self.drafts_button.toggled.connect(self.show_all_drafts)
        self.tokens_button = footer.add("Tokens", "Show this reply pass by pass, and replay it", self._tokens)
        if self.is_user:
            self.stats.hide()
            for button in footer.offered:
                footer.want(button, button in (self.copy_button, self.quote_button, self.edit_button))

    def set_branches(self, ids: Sequence[int]) -> None:
        """These messages, this one among them, stand in this place, each on a branch of its own."""
        self.branch.set_branches(ids, self.row.id)
        self._footer.arrange()

    # --------------------------------------------------------------------------------------- content

    def _fill(self, row: MessageRow) -> None:
        text = row.text
        if self.is_user:
            attachments, typed = split(text)
            self.chips.set_attachments(attachments)
            self.view.typesetter.set_plain(typed, self._limited(typed))
            self.view.setVisible(bool(typed) or not attachments)
        elif row.role == "system":
            self.view.typesetter.set_plain(text, self._limited(text))
        elif text:
            spans = row.spans if "".join(s.text for s in row.spans) == text else (Span(text),)
            self._feed(spans, [])
            if row.state != "writing":
                self._close()
        self._show_state(row, row.stats)

    def recount(self) -> None:
        """The tokens of its files may be known better now."""
        if self.is_user and self.chips.chips:
            self.chips.recount()
            self._fit_bubble()

    @staticmethod
    def _limited(text: str) -> str:
        if len(text) <= SHOWN:
            return text
        return f"{text[:SHOWN]}\n\n{len(text) - SHOWN:,} more characters are not shown here; Copy gives all of them."

    def append_rounds(self, rounds: Sequence[Round]) -> None:
        """Add what the rounds of one frame made visible."""
        if not self.bar.isHidden() or not self.status.isHidden():
            self._say("")
        if self._rounds is not None:
            self._rounds.extend(rounds)
        ghosts = [Rejected(at, text, name) for at, text, name in rejected_of(rounds, self._length)]
        self._feed([span for r in rounds for span in r.spans], ghosts)

    def _feed(self, spans: Sequence[Span], ghosts: list[Rejected]) -> None:
        room = SHOWN - self._length
        text = "".join(s.text for s in spans)
        self._length += len(text)
        self._source.append(text)
        if self._length <= SHOWN:
            self._set(self._parter.feed([(s.text, s.drafter) for s in spans]), ghosts)
            return
        if room > 0:
            self._set(self._parter.feed([(text[:room], None)]), [])
        self.view.typesetter.keep(text[max(0, room) :])
        self._say(f"This reply is very long: only its first {SHOWN:,} characters are shown; Copy gives all of it.")

    def _set(self, parted: Parted, ghosts: list[Rejected]) -> None:
        """Give thought and answer what is theirs."""
        parter, answer, thought = self._parter, self.view.typesetter, []
        if parted.restart:  # what was taken for the answer was thought
            thought = [Rejected(g.source, g.text, g.drafter) for g in answer.rejected]
            self.view.reset()
            answer = self.view.typesetter
        here = []
        for ghost in ghosts:
            if parter.where == "answer" and ghost.source >= parter.answer_from:
                ghost.source -= parter.answer_from
                here.append(ghost)
            elif ghost.source >= parter.thought_from:
                ghost.source -= parter.thought_from
                thought.append(ghost)
        live = self.row.state == "writing"
        if parted.thought or parter.open:
            view = self._thought_view()
            if live and thought and not view.isHidden():
                view.add_ghosts(thought)
            view.typesetter.append(parted.thought, thought)
        if parted.answer or here:
            if live and here:
                self.view.add_ghosts(here)
            answer.append(parted.answer, here)
        if self.thought is not None:
            self.thought.show_words(parter.open and live)
            self._show_view()

    def _thought_view(self) -> DocumentView:
        if self.thought is None:
            self.thought = ThoughtView(self.view.document().defaultFont(), self)
            self.thought.view.tell = lambda at: self._tell(self._parter.thought_from + at)
            self.thought.view.set_show_drafts(self.view.typesetter.show_drafts)
            self.thought.view.set_show_rejected(self.view.show_rejected)
            layout = self.layout()
            if isinstance(layout, QVBoxLayout):
                layout.insertWidget(layout.indexOf(self.view), self.thought)
        return self.thought.view

    def _close(self) -> None:
        """No more text comes."""
        self._set(self._parter.finish(), [])
        for view in self._views():
            view.typesetter.finish()

    def _views(self) -> list[DocumentView]:
        return [self.view] if self.thought is None else [self.thought.view, self.view]

    def settle(self) -> None:
        """Catch up with what was only shown plainly while time was short."""
        for view in self._views():
            view.typesetter.settle()

    def set_progress(self, progress: PromptProgress) -> None:
        """Show how far the prompt is read, in place of the reply that is still empty."""
        if self._length:
            return
        self._say(progress_line(progress))
        self.bar.setRange(0, max(1, progress.total))
        self.bar.setValue(progress.done)
        self.bar.setVisible(progress.done < progress.total)

    def finish(self, row: MessageRow, stats: Finished | None) -> None:
        """The reply is complete, or will never be; `row` has its last state."""
        source = "".join(self._source)
        if row.text.startswith(source) and len(row.text) > len(source):
            tail = row.text[len(source) :]
            known = stats.tail if stats is not None else ()
            spans = known if "".join(s.text for s in known) == tail else (Span(tail),)
            self._feed(spans, [])
        self.row = row
        self._close()
        self._show_state(row, stats or row.stats)

    def _show_state(self, row: MessageRow, stats: Finished | None) -> None:
        writing = row.state == "writing"
        if not self.is_user:
            words = state_line(row.state, row.note)
            if writing and not row.text:
                words = "Waiting for the model"
            if words or not self._held_over():
                self._say(words)
        self.stats.setText(stats_line(stats))
        if self.is_user:
            return
        self.stats.setVisible(bool(self.stats.text()))
        want, drafted = self._footer.want, any(s.drafter for s in row.spans) or bool(stats and stats.by_drafter)
        want(self.restart_button, row.state in ("failed", "cut"))
        want(self.continue_button, can_go_on(row))
        always = (self.regenerate_button, self.copy_button, self.markdown_button, self.quote_button, self.edit_button)
        for button in always:
            want(button, not writing)
        want(self.drafts_button, not writing and drafted)
        want(self.tokens_button, bool(row.model))

    def _held_over(self) -> bool:
        return self._length > SHOWN

    def _say(self, words: str) -> None:
        self.status.setText(words)
        self.status.setVisible(bool(words))
        if not words:
            self.bar.hide()
        self._show_view()

    def _show_view(self) -> None:
        """The answer is hidden while there is none and something else stands in its place."""
        nothing = not self.view.typesetter.source
        instead = self.thought is not None or not self.status.isHidden()
        self.view.setVisible(self.is_user or not (nothing and instead))

    # ----------------------------------------------------------------------------------------- drafts

    def set_show_drafts(self, shown: bool) -> None:
        """Tint what drafters proposed, or do not."""
        for view in self._views():
            view.set_show_drafts(shown)

    def set_show_rejected(self, shown: bool) -> None:
        """Show rejected drafts in the line while they come, or do not."""
        for view in self._views():
            view.set_show_rejected(shown)

    def show_all_drafts(self, shown: bool) -> None:
        """Show every rejected draft of this reply, standing still, from its stored rounds."""
        known = any(view.typesetter.rejected for view in self._views())
        if shown and not known and self.rounds_provider is not None:
            rounds = self.rounds_provider(self.row.id)
            spans = [span for r in rounds for span in r.spans]
            got = "".join(span.text for span in spans)
            if rounds and self.row.text.startswith(got) and len(self.row.text) <= SHOWN:
                rest = self.row.text[len(got) :]
                for view in self._views():
                    view.reset()
                self._parter, self._length, self._source = Parter(), 0, []
                self._feed([*spans, Span(rest)], [Rejected(at, text, name) for at, text, name in rejected_of(rounds)])
                self._close()
        for view in self._views():
            view.set_still_ghosts(shown)

    def _tell(self, source: int) -> str:
        """What is known of the token that a character of the source came from."""
        rounds = self._rounds
        if not rounds and self.rounds_provider is not None:
            rounds = self.rounds_provider(self.row.id)
            if self.row.state != "writing":
                self._rounds = rounds
        place = place_of(rounds or (), source)
        return describe_token(*place) if place is not None else ""

    def _tokens(self) -> None:
        self.tokens_requested.emit(self.row.id)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self._footer.menu(self._footer.offered)
        if not menu.isEmpty():
            menu.popup(event.globalPos())

    # ---------------------------------------------------------------------------------------- actions

    def copy_text(self) -> None:
        """Copy the message as plain text: what is read, without marks."""
        plain = plain_text(self.view.document())
        whole = self.is_user or self._length > SHOWN
        QGuiApplication.clipboard().setText(self._answer_source() if whole or not plain else plain)

    def copy_markdown(self) -> None:
        """Copy the message's source."""
        QGuiApplication.clipboard().setText(self._answer_source())

    def _answer_source(self) -> str:
        """What is copied: the answer, or what was thought where there is no answer."""
        return next((view.typesetter.source for view in reversed(self._views()) if view.typesetter.source), "")

    def selected_text(self) -> str:
        """What is selected in it, "" if nothing is."""
        for view in self._views():
            if view.textCursor().hasSelection():
                return view.createMimeDataFromSelection().text()
        return ""

    def quote(self) -> None:
        """Quote what is selected in it, or all of it."""
        self.quote_requested.emit(self.selected_text() or self._answer_source())

    def edit(self) -> None:
        """Let the person change the text in its place."""
        if self._editor is not None:
            self._editor.setFocus()
            return
        if self.row.state == "writing":
            return
        font = self.view.document().defaultFont()
        if self.is_user:
            self._editor, layout = EditBox(self.row.text, font, self._bubble), self._bubble.layout()
            self._editor.setFixedWidth(self._bubble_room())
        else:
            self._editor, layout = EditBox(self.row.text, font, self, reply=True), self.layout()
        self._editor.confirmed.connect(self._edited)
        self._editor.cancelled.connect(self._stop_editing)
        if isinstance(layout, QVBoxLayout):
            layout.insertWidget(layout.indexOf(self.view) + 1, self._editor)
        self.view.hide()
        if self.thought is not None:
            self.thought.hide()
        if self.is_user:
            self.chips.hide()
        self._editor.show()
        self._editor.setFocus()

    def _edited(self, text: str) -> None:
        self._stop_editing()
        self.edit_requested.emit(self.row.id, text)

    def _stop_editing(self) -> None:
        if self._editor is not None:
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
        if self.is_user:
            self.chips.setVisible(bool(self.chips.chips))
            self.view.setVisible(bool(self.view.typesetter.source) or not self.chips.chips)
        else:
            if self.thought is not None:
                self.thought.show()
            self._show_view()
        self.edit_button.setFocus()

    def _bubble_room(self) -> int:
        """The most that a bubble's content may be wide."""
        return max(80, int(self.width() * BUBBLE) - 28)

    def go_on(self) -> None:
        """Ask for more of this reply."""
        self.continue_requested.emit(self.row.id)

    def _regenerate(self) -> None:
        self.regenerate_requested.emit(self.row.id)

    def set_last(self, last: bool) -> None:
        """The last message keeps its buttons in sight."""
        if last != self._last:
            self._last = last
            self._footer.update()

    # ------------------------------------------------------------------------------------------ looks

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.is_user:
            self._fit_bubble()

    def _fit_bubble(self) -> None:
        document = self.view.document()
        most = self._bubble_room()
        document.setTextWidth(most)
        self.view.setFixedWidth(min(most, math.ceil(document.idealWidth()) + 3))
        self.chips.setFixedWidth(max(1, self.chips.arrange(most)[0]))
        if self._editor is not None:
            self._editor.setFixedWidth(most)

    def enterEvent(self, event: QEnterEvent) -> None:
        self._hovered = True
        self._footer.update()

    def leaveEvent(self, event: QEvent) -> None:
        self._hovered = False
        self._footer.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_footer"):
            self._recolor()

    def _recolor(self) -> None:
        self.branch.recolor()
        for label in [self.stats, self.status] if self.is_user else [self.stats, self.status, self.header]:
            mute(label)
