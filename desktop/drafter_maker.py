"""Models > Make a Drafter for This Model: the dialog, the process that it watches, and the engine that is loaded anew
once the drafter is there. The window's own part is three lines."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget

from desktop.color_scheme import inherit_scheme
from desktop.conversation import Conversation
from desktop.dialogs.make_drafter import MakeDrafterDialog
from desktop.engine_keeper import EngineState
from desktop.theme import drafter_title
from desktop.training import Made, Training
from mlx_spec.events import ModelInfo


class DrafterMaker(QObject):
    """One dialog, made when it is first asked for, and at most one training. `tell` says a sentence in the window, for
    when the dialog is closed."""

    def __init__(
        self,
        parent: QWidget,
        conversation: Conversation,
        tell: Callable[[str], object],
        training: Training | None = None,
    ) -> None:
        super().__init__(parent)
        self._parent, self._talk, self._tell = parent, conversation, tell
        self.training = training or Training()
        self.training.setParent(self)
        self.dialog: MakeDrafterDialog | None = None
        self._new: Made | None = None  # a drafter for which the engine has not been loaded anew
        self._awaited: Made | None = None  # the one that the engine should have once it is loaded
        conversation.state_changed.connect(lambda *_: self._soon())
        conversation.model_loaded.connect(self._loaded)

    def open(self) -> MakeDrafterDialog:
        """Show the dialog, about the model that is loaded, or about the one that a drafter is being made for."""
        dialog = self.dialog or self._make()
        info = self._talk.info
        dialog.set_model(info.model if info is not None else "")
        dialog.show()
        dialog.activateWindow()
        return dialog

    def close(self) -> None:
        """End what runs: the app ends. The next run goes on from there."""
        self.training.close()

    def _make(self) -> MakeDrafterDialog:
        dialog = self.dialog = MakeDrafterDialog(self._parent)
        inherit_scheme(dialog)
        dialog.start_requested.connect(self._start)
        training = self.training
        dialog.stop_requested.connect(training.stop)
        training.stepped.connect(dialog.step)
        training.made.connect(self._made)
        training.stopped.connect(dialog.stopped)
        training.failed.connect(self._failed)
        return dialog

    def _start(self, kind: str, minutes: int, disk_gb: float, again: bool) -> None:
        info = self._talk.info
        if info is not None and self.dialog is not None:
            self.dialog.started()
            self.training.start(info.model, kind, minutes, disk_gb, again)

    def _made(self, made: Made) -> None:
        assert self.dialog is not None
        self.dialog.made(made)
        self._new = made
        self._talk.set_drafter(made.kind, True)
        self._soon()

    def _failed(self, text: str) -> None:
        assert self.dialog is not None
        self.dialog.failed(text)
        if not self.dialog.isVisible():
            self._tell(f"The drafter was not made. {text}")

    # ---------------------------------------------------------------------------------------- using it

    def _soon(self) -> None:
        """Load anew between two events, not in the middle of one."""
        if self._new is not None:
            QTimer.singleShot(0, self, self._load)

    def _load(self) -> None:
        """Load the engine anew if it is free and has the model that the drafter was made for."""
        made, info = self._new, self._talk.info
        if made is None or self._talk.state is not EngineState.IDLE or info is None:
            return  # a reply comes first
        self._new = None
        if info.model == made.model:  # for another one it is found when that is loaded again
            self._awaited = made
            self._talk.load(info.model, info.draft or "")

    def _loaded(self, info: ModelInfo) -> None:
        made, self._awaited = self._awaited, None
        if made is None or made.model != info.model or self.dialog is None:
            return
        why = dict(info.refused).get(made.kind, "it was not found")
        text = f"{drafter_title(made.kind)} is on now." if made.kind in info.drafters else f"It cannot be used: {why}."
        self.dialog.say(text)
        if not self.dialog.isVisible():
            self._tell(f"The drafter for {info.model} is made. {text}")
