"""Run a slow function beside the window and bring its answer back into the window's thread.

The worker threads touch nothing of Qt: they put their answer into a queue, which a timer empties while anything is
outstanding. An owner that is gone takes its answers with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QTimer

from mlx_spec.events import Problem

T = TypeVar("T")
POLL_MS = 30


class Background(QObject):
    """Runs functions on daemon threads; lives as long as its parent."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._answers: deque[Callable[[], None]] = deque()
        self._running = 0
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._deliver)

    def run(self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Call `done` with what `work` returns, or `failed` with what it raised, later, in this thread."""
        answers = self._answers

        def worker() -> None:
            answer: Callable[[], None]
            try:
                result = work()
            except Exception as error:
                answer = _call(failed, error)
            else:
                answer = _call(done, result)
            answers.append(answer)

        self._running += 1
        self._timer.start()
        threading.Thread(target=worker, name="dialog work", daemon=True).start()

    def _deliver(self) -> None:
        while self._answers:
            self._running -= 1
            self._answers.popleft()()
        if self._running == 0:
            self._timer.stop()


def _call(function: Callable[[Any], None], value: object) -> Callable[[], None]:
    return lambda: function(value)


def problem_text(error: Exception) -> str:
    """An error for a person: message and remedy of a `Problem`, else one honest sentence."""
    if isinstance(error, Problem):
        return f"{error.message}\n{error.remedy}".strip()
    return f"The check itself failed ({type(error).__name__}: {error})."
