"""The main window: puts chat list, transcript, composer and sidebar together and wires them to the conversation.

Holds no state of its own but what is on the screen: what is said lives in the store, what is chosen in the
settings, what runs in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QIcon, QPalette
from PySide6.QtWidgets import QMainWindow, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from desktop.chat.chat_list import ChatList
from desktop.chat.composer import Composer
from desktop.chat.hits import HitBar
from desktop.chat.incognito_strip import IncognitoStrip
from desktop.chat.own_strip import OwnStrip
from desktop.chat.transcript import Transcript
from desktop.chat.tray import local_files
from desktop.chat_desk import ChatDesk
from desktop.color_scheme import apply_color_scheme, inherit_scheme
from desktop.context import Full
from desktop.conversation import Conversation
from desktop.dialogs.empty_state import EmptyState
from desktop.dialogs.memory_note import memory_of
from desktop.dialogs.model_facts import assess
from desktop.dialogs.models import ModelsDialog
from desktop.dialogs.notice_bar import NoticeBar
from desktop.dialogs.problem_bar import ProblemBar
from desktop.dialogs.settings import SettingsDialog
from desktop.dialogs.texts import HelpDialog, about_box
from desktop.drafter_maker import DrafterMaker
from desktop.engine_keeper import EngineState
from desktop.menus import Menus
from desktop.model_desk import ModelDesk
from desktop.preset_desk import PresetDesk
from desktop.race.opener import RaceOpener
from desktop.settings import (
    COLOR_SCHEME,
    CONTEXT,
    DRAFT_MODEL,
    DRAFTERS,
    MODEL,
    SHOW_DRAFTS,
    SHOW_REJECTED,
    SHOW_SIDEBAR,
    SPLITTER,
    WINDOW_GEOMETRY,
    WINDOW_STATE,
    Setting,
    Settings,
)
from desktop.sidebar.live_sidebar import LiveSidebar, model_title
from desktop.store import ChatRow, MessageRow, Store
from desktop.tokens.opener import TokensOpener
from desktop.turn_actions import TurnActions
from mlx_spec.events import Failed, Finished, ModelInfo, Problem, Round

ICON = Path(__file__).parent / "icons" / "outrider.svg"
SAVE_TYPING_MS = 400
RUNNING = (EngineState.PREFILLING, EngineState.GENERATING, EngineState.STOPPING)


class MainWindow(QMainWindow):
    """The one window of the app."""

    def __init__(self, conversation: Conversation, settings: Settings, store: Store) -> None:
        super().__init__()
        self._conversation = conversation
        self._settings = settings
        self._store = store
        self._chat: ChatRow | None = None
        self._last_reply: int | None = None
        self._failed: Failed | None = None
        self._unsaid = ""  # an edited message that was put into the composer
        self._closing = False
        self.setWindowTitle("Outrider")
        self.setWindowIcon(QIcon(str(ICON)))
        self.setMinimumSize(900, 600)
        self.setAcceptDrops(True)
        self._build()
        self._typing = QTimer(self)
        self._typing.setSingleShot(True)
        self._typing.setInterval(SAVE_TYPING_MS)
        self._typing.timeout.connect(self._save_typing)
        self._connect_widgets()
        self._connect_menus()
        self._connect_conversation()
        self._restore()

    @property
    def conversation(self) -> Conversation:
        """What happens in it."""
        return self._conversation

    @property
    def settings(self) -> Settings:
        """What is chosen."""
        return self._settings

    @property
    def store(self) -> Store:
        """What was said."""
        return self._store

    # ----------------------------------------------------------------------------------------- building

    def _build(self) -> None:
        self.chat_list = ChatList()
        self.transcript = Transcript()
        self.transcript.rounds_provider = self._store.rounds
        room = self._conversation.room
        self.transcript.count = room.counter.count
        room.counter.changed.connect(self.transcript.recount)
        self.empty = EmptyState()
        self.problems = ProblemBar()
        self.notice = NoticeBar()
        self.incognito = IncognitoStrip()
        self.incognito.hide()
        self.hit_bar = HitBar(self.transcript)
        self.composer = Composer()
        self.composer.set_room(room)
        self.sidebar = LiveSidebar()

        self._pages = QStackedWidget()
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.transcript)
        middle = QWidget()
        middle.setBackgroundRole(QPalette.ColorRole.Base)
        middle.setAutoFillBackground(True)
        bar = QVBoxLayout()
        bar.setContentsMargins(12, 0, 12, 0)
        bar.setSpacing(6)
        bar.addWidget(self.problems)
        bar.addWidget(self.notice)
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.incognito)
        self.own = OwnStrip()
        column.addWidget(self.own)
        column.addWidget(self.hit_bar)
        column.addWidget(self._pages, 1)
        column.addLayout(bar)
        column.addWidget(self.composer)
        middle.setMinimumWidth(360)

        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        for widget in (self.chat_list, middle, self.sidebar):
            self._splitter.addWidget(widget)
        for index, (stretch, can_collapse) in enumerate(((0, True), (1, False), (0, False))):
            self._splitter.setStretchFactor(index, stretch)
            self._splitter.setCollapsible(index, can_collapse)
        self._splitter.setSizes([210, 620, 300])
        self._splitter.setHandleWidth(1)
        self.setCentralWidget(self._splitter)
        self.menus = Menus(self.menuBar(), self._settings)
        self.desk = ChatDesk(self)
        self.turns = TurnActions(self)
        self.tokens = TokensOpener(self, self._conversation, self._store)
        self.maker = DrafterMaker(self, self._conversation, self.notice.tell)
        self.models = ModelDesk(self, self._conversation, self._settings, self._load, self.notice.tell)
        self.races = RaceOpener(self, self._conversation)
        self.presets = PresetDesk(self)

    def _connect_widgets(self) -> None:
        talk = self._conversation
        self.composer.submitted.connect(self._send)
        self.composer.stop_requested.connect(talk.stop)
        self.composer.stop_requested.connect(self.races.stop)
        self.composer.text_changed.connect(lambda _text: self._typing.start())
        self.empty.picked.connect(self._pick_sample)
        self.problems.dismissed.connect(self._forget_problem)
        self.transcript.edit_requested.connect(talk.edit)
        self.transcript.regenerate_requested.connect(talk.regenerate)
        self.transcript.restart_requested.connect(talk.restart_engine)
        self.transcript.tokens_requested.connect(self.tokens.open)
        self.sidebar.restart_requested.connect(talk.restart_engine)
        self._settings.changed.connect(self._setting_changed)

    def _connect_menus(self) -> None:
        menus, talk = self.menus, self._conversation
        menus.about.triggered.connect(self._show_about)
        menus.preferences.triggered.connect(lambda: self.open_settings())
        menus.sampling.triggered.connect(lambda: self.open_settings("Sampling"))
        menus.quit.triggered.connect(self.close)
        menus.close_window.triggered.connect(self.close)
        menus.attach.triggered.connect(self.composer.clip.click)
        menus.stop.triggered.connect(talk.stop)
        menus.regenerate.triggered.connect(self._regenerate)
        menus.choose_model.triggered.connect(self.choose_model)
        menus.browse_models.triggered.connect(lambda: self.models.open())
        menus.make_drafter.triggered.connect(lambda: self.maker.open())
        menus.restart.triggered.connect(talk.restart_engine)
        menus.help.triggered.connect(self._show_help)
        menus.tokens.triggered.connect(lambda: self.tokens.open(self._last_reply))
        menus.race.triggered.connect(lambda: self.races.open())
        menus.stop.triggered.connect(self.races.stop)
        menus.drafter_toggled.connect(talk.set_drafter)

    def _connect_conversation(self) -> None:
        talk = self._conversation
        talk.chats_changed.connect(self._chats_changed)
        talk.chat_opened.connect(self._chat_opened)
        talk.message_added.connect(self._message_added)
        talk.rounds_arrived.connect(self._rounds_arrived)
        talk.prompt_progress.connect(self.transcript.set_progress)
        talk.reply_finished.connect(self._reply_finished)
        talk.problem.connect(self._problem)
        talk.full.connect(self._full)
        talk.unsent.connect(self._unsent)
        talk.state_changed.connect(self._state_changed)
        talk.model_loaded.connect(self._model_loaded)
        talk.memory_changed.connect(self.sidebar.set_memory)
        talk.drafters_changed.connect(self.sidebar.set_drafters)

    def _restore(self) -> None:
        get = self._settings.get
        for setting, restore in (
            (WINDOW_GEOMETRY, self.restoreGeometry),
            (WINDOW_STATE, self.restoreState),
            (SPLITTER, self._splitter.restoreState),
        ):
            saved = get(setting)
            if saved:
                restore(QByteArray(saved))
        if not get(WINDOW_GEOMETRY):
            self.resize(1180, 780)
        self.transcript.set_show_drafts(get(SHOW_DRAFTS))
        self.transcript.set_show_rejected(get(SHOW_REJECTED))
        self.sidebar.setVisible(get(SHOW_SIDEBAR))
        self.sidebar.set_drafters(self._settings.drafter_settings())
        if get(COLOR_SCHEME) != "system":
            apply_color_scheme(self, get(COLOR_SCHEME))

    # --------------------------------------------------------------------------------------------- chats

    def _chats_changed(self, chats: list[ChatRow]) -> None:
        self.desk.set_chats(chats)
        if self._chat is not None:
            self.chat_list.select(self._chat.id)
            for chat in chats:
                if chat.id == self._chat.id:
                    self._chat = chat
                    self._show_title()

    def _chat_opened(self, chat: ChatRow, rows: list[MessageRow]) -> None:
        if self._chat is None or chat.id != self._chat.id:
            self._save_typing()
            self._chat = chat
            self.composer.set_text(self._store.composer_draft(chat.id))
            self._typing.stop()
        self._chat = chat
        replies = [row.id for row in rows if row.role == "assistant"]
        self._last_reply = replies[-1] if replies else None
        self.transcript.show_messages(rows)
        self._pages.setCurrentWidget(self.transcript if rows else self.empty)
        self.chat_list.select(chat.id)
        self.incognito.setVisible(chat.incognito)
        self._show_title()
        self._update_menus()
        if not self.desk.keeps_focus():
            self.composer.setFocus()

    def _show_title(self) -> None:
        title = (self._chat.title if self._chat else "") or "Outrider"
        incognito = self._chat is not None and self._chat.incognito
        self.setWindowTitle(f"{title} (incognito)" if incognito else title)

    def _save_typing(self) -> None:
        self._typing.stop()
        if self._chat is None:
            return
        try:
            self._store.set_composer_draft(self._chat.id, self.composer.text())
        except Problem as problem:  # the text stays in the field
            self._problem(Failed(0, problem.message, problem.remedy))

    # ------------------------------------------------------------------------------------------ messages

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if local_files(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Files that are dropped anywhere in the window go to the message that is being written."""
        self.composer.dropEvent(event)

    def _pick_sample(self, prompt: str) -> None:
        self.composer.set_typed(prompt)
        self.composer.setFocus()

    def _send(self, text: str) -> None:
        self.problems.dismiss()
        try:
            self._conversation.send(text)
        except Full as full:
            self.composer.set_text(text)
            self._full(full, self._send_without_oldest)
        except Problem as problem:  # nothing that was typed is lost
            self.composer.set_text(text)
            self._problem(Failed(0, problem.message, problem.remedy))

    def _send_without_oldest(self) -> None:
        if self._chat is not None:
            self._conversation.room.agree(self._chat.id)
            self.composer.submit()

    def _full(self, full: Full, again: Callable[[], None]) -> None:
        """The context is full: say so, and offer to go on without the oldest turns where that helps."""
        self._failed = None

        def without_oldest() -> None:
            if self._unsaid and self.composer.text() == self._unsaid:
                self.composer.set_text("")  # it is said now
            again()

        failed = Failed(0, full.message, full.remedy)
        self.problems.show_problem(failed, "Leave Out Oldest Turns" if full.can_drop else "", without_oldest)

    def _unsent(self, text: str) -> None:
        """An edited message could not be said: what was typed is kept where it can be said again."""
        if not self.composer.text():
            self.composer.set_text(text)
            self._unsaid = text

    def _regenerate(self) -> None:
        if self._last_reply is not None:
            self._conversation.regenerate(self._last_reply)

    def _message_added(self, row: MessageRow) -> None:
        if self._chat is None or row.chat_id == self._chat.id:
            self.transcript.add_message(row)
            self._pages.setCurrentWidget(self.transcript)
        if row.role == "assistant":
            self._last_reply = row.id
            self.sidebar.reply_started()
        self._update_menus()

    def _rounds_arrived(self, message_id: int, rounds: list[Round]) -> None:
        self.sidebar.add_rounds(rounds)
        self.transcript.append_rounds(message_id, rounds)

    def _reply_finished(self, row: MessageRow, finished: Finished | None) -> None:
        self.sidebar.reply_finished(finished)
        self.transcript.finish(row, finished)
        self._update_menus()

    # -------------------------------------------------------------------------------------------- engine

    def _problem(self, failed: Failed) -> None:
        self._failed = failed
        self._show_problem()

    def _show_problem(self) -> None:
        """Show the last failure with the button that helps in the present state."""
        if self._failed is None:
            return
        state = self._conversation.state
        if state is EngineState.DEAD:
            self.problems.show_problem(self._failed, "Restart Engine", self._conversation.restart_engine)
        elif state is EngineState.NO_MODEL:
            self.problems.show_problem(self._failed, "Choose Model…", self.choose_model)
        else:
            self.problems.show_problem(self._failed)

    def _forget_problem(self) -> None:
        self._failed = None

    def _state_changed(self, state: EngineState, text: str, progress: float) -> None:
        self.sidebar.set_state(state, text, progress)
        self.composer.set_generating(state in RUNNING)
        if state is EngineState.NO_MODEL:
            self.empty.set_model("")
        if not self.problems.isHidden():
            self._show_problem()  # the state may call for another button
        self._update_menus()

    def _update_menus(self) -> None:
        state = self._conversation.state
        can_answer = state in (EngineState.IDLE, EngineState.ASLEEP) and self._last_reply is not None
        self.menus.set_generating(state in RUNNING, can_regenerate=can_answer)
        self.menus.tokens.setEnabled(self._last_reply is not None)

    def _model_loaded(self, info: ModelInfo) -> None:
        self.sidebar.set_model(info)
        self.menus.set_model(info)
        self.empty.set_model(model_title(info.model))
        self.problems.dismiss()

    # ------------------------------------------------------------------------------------------- dialogs

    def open_settings(self, group: str = "") -> SettingsDialog:
        """Open the settings, at a group if one is named."""
        dialog = SettingsDialog(self._settings, self, memory=memory_of(self._settings))
        inherit_scheme(dialog)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if group:
            dialog.show_group(group)
        dialog.show()
        return dialog

    def choose_model(self) -> None:
        """Open the model picker."""
        get = self._settings.get
        context = get(CONTEXT)
        dialog = ModelsDialog(
            get(MODEL), get(DRAFT_MODEL), self, check=lambda model, draft: assess(model, draft, context)
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        inherit_scheme(dialog)
        dialog.chosen.connect(self._load)
        dialog.browse.connect(lambda: self.models.open())
        dialog.open()

    def _load(self, model: str, draft: str) -> None:
        try:
            self._settings.set(MODEL, model)
            self._settings.set(DRAFT_MODEL, draft)
        except Problem as problem:
            self._problem(Failed(0, problem.message, problem.remedy))
            return
        self._conversation.load(model, draft)

    def _show_about(self) -> None:
        box = about_box(self)
        inherit_scheme(box)
        box.open()

    def _show_help(self) -> None:
        info = self._conversation.info
        drafters = info.drafters if info is not None else self._settings.get(DRAFTERS)
        dialog = HelpDialog(drafters, self)
        inherit_scheme(dialog)
        dialog.show()

    def _setting_changed(self, setting: Setting[Any]) -> None:
        get = self._settings.get
        if setting is SHOW_DRAFTS:
            self.transcript.set_show_drafts(get(SHOW_DRAFTS))
        elif setting is SHOW_REJECTED:
            self.transcript.set_show_rejected(get(SHOW_REJECTED))
        elif setting is SHOW_SIDEBAR:
            self.sidebar.setVisible(get(SHOW_SIDEBAR))
        elif setting is COLOR_SCHEME:
            apply_color_scheme(self, get(COLOR_SCHEME))

    # ------------------------------------------------------------------------------------------- closing

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._closing:
            self._closing = True
            self._save_typing()
            self._settings.set(WINDOW_GEOMETRY, bytes(self.saveGeometry().data()))
            self._settings.set(WINDOW_STATE, bytes(self.saveState().data()))
            self._settings.set(SPLITTER, bytes(self._splitter.saveState().data()))
            self.maker.close()
            self.models.close()
            self._conversation.close()
        event.accept()
