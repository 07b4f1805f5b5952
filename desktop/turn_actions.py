"""Wires what is done with turns: branches, continuing, editing, copying, quoting, by button, menu and keyboard.

The menu's commands are about the message that has the keyboard's focus or a selection, else about the last one they
can be about. Holds nothing; the window lends its widgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from desktop.branches import branches, can_go_on
from desktop.chat.message_view import MessageView
from desktop.store import ChatRow, MessageRow

if TYPE_CHECKING:
    from desktop.window import MainWindow


class TurnActions(QObject):
    """The part of the window that is about single messages."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._talk, self._store, self._menus = window.conversation, window.store, window.menus
        self._transcript, self._composer = window.transcript, window.composer
        shown = self._transcript
        shown.branch_requested.connect(self.show_branch)
        shown.continue_requested.connect(self._talk.go_on)
        shown.quote_requested.connect(self._composer.quote)
        # Before the window shows a chat, so that its messages are made with their branches.
        self._talk.chat_opened.connect(lambda chat, _rows: self._learn(chat.id))
        self._talk.message_added.connect(self._added)
        menus = self._menus
        menus.previous_branch.triggered.connect(lambda: self._step(-1))
        menus.next_branch.triggered.connect(lambda: self._step(1))
        menus.go_on.triggered.connect(lambda: self._do(MessageView.go_on, lambda view: can_go_on(view.row)))
        menus.edit_message.triggered.connect(lambda: self._do(MessageView.edit, lambda view: True))
        menus.copy_reply.triggered.connect(lambda: self._do(MessageView.copy_text, _is_reply))
        menus.copy_markdown.triggered.connect(lambda: self._do(MessageView.copy_markdown, _is_reply))
        menus.quote.triggered.connect(self._quote)

    # ------------------------------------------------------------------------------------------ branches

    def _learn(self, chat_id: int) -> None:
        self._transcript.set_branches(branches(self._store, chat_id))

    def _added(self, row: MessageRow) -> None:
        chat: ChatRow | None = self._talk.chat
        if chat is not None and chat.id == row.chat_id:
            self._learn(chat.id)

    def show_branch(self, shown: int, wanted: int) -> None:
        """Show the message `wanted` where `shown` is; it stays in its place on the screen, and so does the focus."""
        view = self._transcript.view_of(shown)
        if view is None:
            return
        top = self._transcript.top_of(view)
        focus = QApplication.focusWidget()
        focused = focus is not None and view.branch.isAncestorOf(focus)
        by = 1 if wanted > shown else -1
        self._talk.show_branch(wanted)
        new = self._transcript.build_to(wanted)
        if new is not None:
            self._transcript.put(new, top)
            if focused:
                new.branch.take_focus(by)

    def _step(self, by: int) -> None:
        view = self._meant(lambda view: not view.branch.isHidden())
        if view is not None:
            view.branch.step(by)

    # ------------------------------------------------------------------------------------------ messages

    def _meant(self, fits: Callable[[MessageView], bool]) -> MessageView | None:
        """The message that a command is about."""
        views, focus = self._transcript.views[::-1], QApplication.focusWidget()
        here = [view for view in views if focus is not None and view.isAncestorOf(focus)]
        return next((view for view in here + views if fits(view)), None)

    def _do(self, act: Callable[[MessageView], None], fits: Callable[[MessageView], bool]) -> None:
        view = self._meant(fits)
        if view is not None:
            act(view)

    def _quote(self) -> None:
        selected = [view for view in self._transcript.views if view.selected_text()]
        if selected:
            selected[-1].quote()
        else:
            self._do(MessageView.quote, _is_reply)


def _is_reply(view: MessageView) -> bool:
    return not view.is_user and bool(view.row.text) and view.row.state != "writing"
