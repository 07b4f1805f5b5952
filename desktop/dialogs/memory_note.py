"""What the chosen models need of memory at the chosen context length, said beside the settings that decide it.

Files are read for it, so it is worked out beside the window, and anew when one of those settings changes.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel, QSizePolicy

from desktop.dialogs.background import Background
from desktop.dialogs.model_facts import context_of, find
from desktop.own import ChatSettings
from desktop.settings import CONTEXT, DRAFT_MODEL, KV_BITS, MODEL, Settings
from desktop.sidebar.stats import bytes_text
from desktop.theme import colors_of
from mlx_spec.events import Problem
from models.memory import KV_START, available, need

SOON_MS = 150


def memory_words(model: str, draft: str, context: int | None, kv_bits: int | None) -> tuple[str, bool]:
    """What a target and a draft ("" for none) need, in two sentences, and whether it is there. Raises `Problem`."""
    target, waiting = find(model)
    if target is None:
        return waiting, True
    second = find(draft)[0] if draft else None
    most = context_of(target)
    length = min(context or most, most)
    asked, there = need(target, second, length, None, kv_bits), available()
    parts = [f"{bytes_text(asked.weights + asked.draft_weights)} of weights"]
    parts.append(f"{bytes_text(asked.kv + asked.draft_kv)} of keys and values")
    words = (
        f"{bytes_text(asked.total)} of memory at a full context of {length:,} tokens ({', '.join(parts)}); "
        f"{bytes_text(there)} are free."
    )
    if kv_bits is not None and length <= KV_START:
        words += f" So short a context stays as it is: keys and values are packed from {KV_START:,} tokens on."
    if asked.total > there:
        words += (
            " That is too much: shorten the context, keep keys and values in fewer bits, or choose a smaller model."
        )
    return words, asked.total <= there


def memory_of(settings: Settings) -> Callable[[], tuple[str, bool]]:
    """Works it out for what the settings say when it is called."""
    get = settings.get
    return lambda: memory_words(get(MODEL), get(DRAFT_MODEL), get(CONTEXT), get(KV_BITS))


class MemoryNote(QLabel):
    """The sentences, kept up to date."""

    def __init__(self, settings: Settings | ChatSettings, ask: Callable[[], tuple[str, bool]]) -> None:
        super().__init__("Working out the memory that this needs…")
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.setAccessibleName("Memory")
        self._ask, self._asked = ask, 0
        self._background = Background(self)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(SOON_MS)
        self._soon.timeout.connect(self._work)
        settings.changed.connect(self._changed)
        self._work()

    def _changed(self, setting: object) -> None:
        if setting in (MODEL, DRAFT_MODEL, CONTEXT, KV_BITS):
            self._soon.start()

    def _work(self) -> None:
        self._asked += 1
        number = self._asked  # an older answer may come after a newer question
        self._background.run(
            self._ask,
            lambda said: self._show(number, *said),
            lambda error: self._show(number, error.message if isinstance(error, Problem) else "", False),
        )

    def _show(self, number: int, words: str, fits: bool) -> None:
        if number != self._asked:
            return
        self.setText(words)
        self.setVisible(bool(words))
        palette = self.palette()
        colors = colors_of(self)
        palette.setColor(self.foregroundRole(), colors.text if fits else colors.danger)
        self.setPalette(palette)
