"""What a person is told who looks at something else: a notice and a bounce when a long reply ends, how many have, and
in the Dock how far a download is.

The decisions are functions of plain values. What shows them is Qt's, but for the notice on a Mac.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QWidget

from desktop import macos
from desktop.conversation import Conversation
from desktop.engine_keeper import EngineState
from desktop.settings import NOTIFY, Settings
from desktop.store import ChatRow, MessageRow
from mlx_spec.events import Finished

ICON = Path(__file__).parent / "icons" / "outrider.svg"
LONG_S = 15.0  # from which on a reply, or a load, was waited for
STEPS = 50  # in which the Dock's bar grows
WORDS = {"done": "The reply is finished.", "failed": "The reply failed.", "cut": "The reply broke off."}


def worth_telling(wanted: bool, in_front: bool, seconds: float, state: str) -> bool:
    """Whether the end of a reply is news. Who stopped it knows; who looks at it sees it; a short one was not left."""
    return wanted and not in_front and seconds >= LONG_S and state in WORDS


def notice_of(chat: ChatRow | None, row: MessageRow) -> tuple[str, str]:
    """Title and text of the notice. It is seen on a locked screen: nothing of the reply, nothing of incognito chats."""
    named = chat is not None and not chat.incognito and chat.title
    return (chat.title if chat is not None and named else "Outrider"), WORDS[row.state]


def step_of(state: EngineState, progress: float) -> int:
    """How far the Dock's bar is, of `STEPS`; -1: there is none. Only what takes long enough to be left has one."""
    return round(min(1.0, progress) * STEPS) if state is EngineState.LOADING and progress >= 0 else -1


def icon_with_bar(icon: QIcon, step: int) -> QIcon:
    """The app's icon with a bar along its foot."""
    picture = icon.pixmap(256, 256)
    if picture.isNull():
        picture = QPixmap(256, 256)
        picture.fill(Qt.GlobalColor.transparent)
    wide, high = picture.width() / picture.devicePixelRatio(), picture.height() / picture.devicePixelRatio()
    bar = QRectF(wide * 0.14, high * 0.76, wide * 0.72, high * 0.08)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    for color, share in ((QColor(0, 0, 0, 170), 1.0), (QColor("#ffffff"), step / STEPS)):
        painter.setBrush(color)
        filled = QRectF(bar.x(), bar.y(), bar.width() * share, bar.height())
        painter.drawRoundedRect(filled, min(filled.width(), bar.height()) / 2, bar.height() / 2)
    painter.end()
    return QIcon(picture)


def put_up(title: str, words: str) -> None:
    """A notice of the system's, on a Mac. Elsewhere the window's own alert is what there is."""
    if macos.MAC:
        program, *arguments = macos.notice_command(title, words)
        QProcess.startDetached(program, arguments)


class Attention(QObject):
    """Watches the conversation for `window`."""

    def __init__(
        self,
        window: QWidget,
        talk: Conversation,
        settings: Settings,
        chat_of: Callable[[int], ChatRow | None],
        put_up: Callable[[str, str], None] = put_up,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(window)
        self._window, self._settings, self._chat_of = window, settings, chat_of
        self._put_up, self._clock = put_up, clock
        self._icon = QIcon(str(ICON))
        self._began = 0.0
        self._step = -1
        self.unseen = 0
        talk.message_added.connect(self._added)
        talk.reply_finished.connect(self._finished)
        talk.state_changed.connect(self._state_changed)
        application = QGuiApplication.instance()
        if isinstance(application, QGuiApplication):
            application.applicationStateChanged.connect(self._looked)

    def in_front(self) -> bool:
        """Whether the person sees the window."""
        active = QGuiApplication.applicationState() is Qt.ApplicationState.ApplicationActive
        return active and self._window.isVisible() and not self._window.isMinimized()

    def _added(self, row: MessageRow) -> None:
        if row.role == "assistant":
            self._began = self._clock()

    def _finished(self, row: MessageRow, finished: Finished | None) -> None:
        wanted = self._settings.get(NOTIFY) and self._window.isVisible()  # a closed one ends replies itself
        if worth_telling(wanted, self.in_front(), self._clock() - self._began, row.state):
            self.unseen += 1
            self._badge()
            QApplication.alert(self._window)
            self._put_up(*notice_of(self._chat_of(row.chat_id), row))

    def _looked(self, state: Qt.ApplicationState) -> None:
        if state is Qt.ApplicationState.ApplicationActive and self.unseen:
            self.unseen = 0
            self._badge()

    def _badge(self) -> None:
        application = QGuiApplication.instance()
        if isinstance(application, QGuiApplication):
            application.setBadgeNumber(self.unseen)

    def _state_changed(self, state: EngineState, words: str, progress: float) -> None:
        step = step_of(state, progress)
        if step != self._step:
            self._step = step
            QApplication.setWindowIcon(icon_with_bar(self._icon, step) if step >= 0 else self._icon)
